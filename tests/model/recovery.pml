/* How a step ends although workers and trainers vanish. This model has the rules for re-issue,
 * reduce, commit and takeover of docs/protocol.md; spin explores small swarms completely.
 * tests/model/check.py runs it; `check.py --explain NAME` prints a counterexample's actions.
 *
 * HOW TO READ IT. There are two stages; a microbatch goes forward through both and back. Each action
 * below is indivisible and has two parts: CAN_Action (when it may happen) and Action (what it does).
 * A process is a loop that picks any possible action; spin tries all orders. Read the workers'
 * actions first, then the trainer's, then the properties at "WHAT MUST HOLD".
 *
 * THE NETWORK is the set of all messages ever sent (routes, reduces, records, and bits such as
 * `forwarded`). The addressee may receive a message at any later moment, before or after any other,
 * or never. This allows more than links that keep the order, so the properties hold on those too.
 * The model uses order once: a control message carries the roster under which it was sent, like a
 * roster sent before it on the same link. A trainer reads a worker's reports (folds, reduced,
 * promises, applied record) in that worker's state: until the next control message of the trainer
 * or its successor, these facts only grow, so a late report equals a trainer that looks late.
 *
 * FAULTS. A worker may crash between any two actions (at most CRASHES workers). A trainer may evict
 * a living worker (SUSPICIONS), which then continues without knowing. The trainer of term 1 may
 * stop at any action for ever (spin just never runs it again) or for a while; the trainer of term
 * 2 may begin at any time. Messages of a dead trainer may be lost: a worker that promises term 2
 * before it receives them never receives them. The trainer may send one reduce on a wrong hint
 * (WRONG_HINTS) and revoke one straggler (REVOKES).
 *
 * EDGES (CUTS). Two workers, PAIR_A and PAIR_B, may lose each other at any moment, while the trainer
 * reaches both; the pair heals at any later moment (HEALS) or never. What was on its way between
 * them is lost, or arrives: through a third worker, after the pair has healed, or both, so frames
 * overtake each other and come twice. What a third worker carries when it crashes is lost likewise.
 * With NO_RELAY no third worker reaches both.
 *
 * FRAGMENTS (rule 32; needs STEPS=2). Step 0 sums one half of the weights, step 1 the other. What a
 * worker has contributed to step 0, it keeps, and its sum of step 1 has it, too.
 *
 * LEFT OUT. Tensors: a sum is a count for each microbatch, and k names the result of a reduce (float
 * sums: each k gives another result). Retained tensors: a re-issue runs its whole route from the
 * token ids again, and stages that have folded only propagate. Joining, draining, rollback: a run
 * ends when a stage has no ready replica (the trainer waits, and says so).
 */

/* ---- size: check.py sets these with -D ---- */
#ifndef LAYOUT
#define LAYOUT 21      /* replicas of stage 0 and of stage 1 */
#endif
#ifndef MICROBATCHES
#define MICROBATCHES 1 /* 1 or 2 */
#endif
#ifndef STEPS
#define STEPS 1
#endif
#ifndef TRAINERS
#define TRAINERS 2     /* 1: no trainer takes over */
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef SUSPICIONS
#define SUSPICIONS 0
#endif
#ifndef REVOKES
#define REVOKES 0
#endif
#ifndef WRONG_HINTS
#define WRONG_HINTS 0
#endif
#ifndef CUTS
#define CUTS 0         /* 1: one pair may break */
#endif
#ifndef HEALS
#define HEALS 0        /* 1: it may heal */
#endif
#ifndef PAIR_A
#define PAIR_A 0
#define PAIR_B 2
#endif

#if LAYOUT == 21
#define WORKERS 3
#define STAGE(w) ((w) / 2)
#define MEMBERS(s) ((s) == 0 -> 3 : 4)
#define EACH_ROUTE_WORKERS(X, m) X(m, 0, 2) X(m, 1, 2)
#elif LAYOUT == 12
#define WORKERS 3
#define STAGE(w) (((w) + 1) / 2)
#define MEMBERS(s) ((s) == 0 -> 1 : 6)
#define EACH_ROUTE_WORKERS(X, m) X(m, 0, 1) X(m, 0, 2)
#elif LAYOUT == 22
#define WORKERS 4
#define STAGE(w) ((w) / 2)
#define MEMBERS(s) ((s) == 0 -> 3 : 12)
#define EACH_ROUTE_WORKERS(X, m) X(m, 0, 2) X(m, 0, 3) X(m, 1, 2) X(m, 1, 3)
#endif

#define ALL_WORKERS ((1 << WORKERS) - 1)
#ifndef MAY_CRASH
#define MAY_CRASH ALL_WORKERS    /* the set of workers that may crash */
#endif
#ifndef MAY_SUSPECT
#define MAY_SUSPECT ALL_WORKERS  /* the set of workers that may be evicted though they live */
#endif
#define NOBODY 15
#define BIT(i) (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)

/* Room in the tables, for each term. If a table is too small, an assertion fails. */
#define ROUTES_PER_TERM (STEPS * MICROBATCHES * (1 + CRASHES + SUSPICIONS + REVOKES + 2 * CUTS))
#define REDUCES_PER_TERM (STEPS * 2 + CRASHES + SUSPICIONS + WRONG_HINTS + 2 * CUTS)
#define ROUTES (TRAINERS * ROUTES_PER_TERM)
#define REDUCES (TRAINERS * REDUCES_PER_TERM + 1)  /* k = 0 means none */
#define RECORDS (TRAINERS * STEPS)

/* ---- messages: tables that only grow. The index orders by (term, n). ---- */

/* A microbatch on its way: the workers of stage 0 and of stage 1, and for each of them the attempt
 * and whether its backward folds. */
typedef Route {
  bit sent;
  byte step, microbatch, roster;
  byte worker[2], attempt[2];
  bit folds[2];
  bit forwarded;  /* activations: worker[0] to worker[1] */
  bit returned;   /* gradients: worker[1] to worker[0] */
  bit finished    /* received by worker[0] */
#if CUTS
  ;bit lost;      /* what was on its way when the pair broke */
  bit twice[2]    /* a stage has received it a second time */
#endif
};
Route route[ROUTES];
#define ROUTE_TERM(r) ((r) / ROUTES_PER_TERM + 1)

/* Reduce(k) and its outcome. */
typedef Reduce {
  byte participants;  /* 0: not sent */
  byte step, roster;
  byte claims;        /* which microbatches each worker must have folded, two bits a worker */
  byte frozen;        /* participants that froze for k and sent their sums to the others */
  byte reduced;       /* participants that hold the result and reported it */
  bit refused;        /* some participant had another fold set */
  bit thawed;         /* its trainer has given it up */
  byte sum            /* ghost: what the frozen sums contain, four bits a microbatch: a count */
#ifdef FRAGMENTS
  ;byte kept          /* ghost: the same, of the step before */
#endif
#if CUTS
  ;bit broken;        /* two participants lost each other since it was asked for */
  bit lost            /* what they had sent each other */
#endif
};
Reduce reduce[REDUCES];
#define REDUCE_TERM(k) (((k) + REDUCES_PER_TERM - 1) / REDUCES_PER_TERM)
#define CLAIM(k, w) ((reduce[k].claims >> (2 * (w))) & 3)

/* Commit(step) as one trainer sent it. */
typedef Record {
  bit sent;
  byte roster;
  byte k[2]  /* the result that counts, for each stage */
};
Record record[RECORDS];
#define RECORD(term, step) (((term) - 1) * STEPS + (step))

/* An attempt is (term, n) in one number, so attempts can be compared. */
#define ATTEMPT(term, n) ((term) * 16 + (n))

/* ---- a worker ---- */
typedef Worker {
  bit crashed;
  byte promised;        /* highest term promised */
  byte roster;          /* newest known */
  byte version;         /* commits applied: the next step is `version` */
  byte folded;          /* fold set of that step */
  byte sum;             /* its accumulator: four bits a microbatch, a count */
  byte closed[MICROBATCHES];  /* attempts up to this one are closed */
  byte k;               /* highest k it froze for */
  bit frozen, reduced;  /* frozen for k now; holds the result of k */
  byte voiding;         /* term of a Void that a trainer sent to it */
  byte applied[STEPS];  /* the k whose result went into the weights */
  byte record           /* index + 1 of the last commit record */
#ifdef FRAGMENTS
  ;byte kept            /* of step 0, for step 1: four bits a microbatch, a count */
#endif
};
Worker worker[WORKERS];

/* ---- a trainer ---- */
mtype = { Absent, TakingOver, Running, Waiting, Finished };
typedef Trainer {
  mtype phase;
  byte roster, step;
  byte owner[2 * MICROBATCHES];    /* the ledger's cells: the worker with the folding attempt */
  byte attempt[2 * MICROBATCHES];
  bit revoking[2 * MICROBATCHES];
  byte k[2];                       /* the reduce that runs, for each stage */
  byte routes, reduces             /* how many of each were made */
#if CUTS
  ;bit taken_back[MICROBATCHES]    /* its owners lost each other: the trainer may revoke it */
#endif
};
Trainer trainer[TRAINERS + 1];  /* by term */
#define CELL(m, s) (2 * (m) + (s))

byte crashes = CRASHES;
byte suspicions = SUSPICIONS;
byte revokes = REVOKES;
byte wrong_hints = WRONG_HINTS;
byte suspected;  /* ghost: the workers evicted in error */
#if CUTS
bit cuts = CUTS;
bit heals = HEALS;
bit broken;       /* PAIR_A and PAIR_B do not reach each other */
byte unreachable; /* the workers evicted because others do not reach them */
#endif

hidden byte i, j, x;  /* loop variables inside one action */

/* ==== WHAT MUST HOLD. Names as in docs/protocol.md; a violated one is what spin prints. ==== */
bit ExactlyOnce = 1;
bit AtMostOnce = 1;
bit AllOrNothing = 1;
bit SameResult = 1;  /* the half of AllOrNothing that compares what was applied */
bit Fencing = 1;
bit Progress = 1;
bit TableHasRoom = 1;

#if MICROBATCHES == 1
#define EACH_ONCE 1
#define ALL_MICROBATCHES 1
#define EVERY_M(P, s) P(0, s)
#else
#define EACH_ONCE 17
#define ALL_MICROBATCHES 3
#define EVERY_M(P, s) (P(0, s) && P(1, s))
#endif

/* The state of the members of the newest trainer's roster counts. An evicted worker that does not
 * know of its eviction may follow an old trainer for a while; it returns only as a joiner without
 * state. */
#if TRAINERS == 2
#define NEWEST (trainer[2].phase == Absent || trainer[2].phase == TakingOver -> 1 : 2)
#else
#define NEWEST 1
#endif
#define COUNTS(w) (HAS(trainer[NEWEST].roster, w) && !worker[w].crashed)

/* At the decision, the contributions of each stage's participants are disjoint and together all M. */
inline CheckExactlyOnce(k0, k1) {
  ExactlyOnce = (reduce[k0].sum == EACH_ONCE && reduce[k1].sum == EACH_ONCE);
  assert(ExactlyOnce);
#ifdef FRAGMENTS
  AtMostOnce = (((reduce[k0].kept | reduce[k1].kept) & ~EACH_ONCE) == 0);
  assert(AtMostOnce)
#endif
}

/* When w applies the results of record d, every other worker that counts has applied the same or can. */
inline CheckAllOrNothing(w, d, step_) {
  if
  :: COUNTS(w) ->
    for (i : 0 .. WORKERS - 1) {
      if
      :: COUNTS(i) && worker[i].version > step_ ->
        SameResult = (worker[i].applied[step_] == record[d].k[STAGE(i)] &&
                      worker[w].applied[step_] == record[d].k[STAGE(w)]);
        assert(SameResult)
#ifndef ONLY_SAME_RESULT
      :: COUNTS(i) && worker[i].version <= step_ ->
        AllOrNothing = (worker[i].version == step_ && worker[i].reduced &&
                        worker[i].k == record[d].k[STAGE(i)]);
        assert(AllOrNothing)
#endif
      :: else
      fi
    }
  :: else
  fi
}

/* ==== WORKERS ==== */

/* This only reduces the number of states: when every living worker has promised term 2, no worker can
 * accept a message of trainer 1, so all of them become zero, except the applied records. */
#define HAS_LEFT(w) (worker[w].crashed || worker[w].promised == 2)
#if WORKERS == 3
#define ALL_LEFT (HAS_LEFT(0) && HAS_LEFT(1) && HAS_LEFT(2))
#define ANY_APPLIED (worker[0].record || worker[1].record || worker[2].record)
#else
#define ALL_LEFT (HAS_LEFT(0) && HAS_LEFT(1) && HAS_LEFT(2) && HAS_LEFT(3))
#define ANY_APPLIED (worker[0].record || worker[1].record || worker[2].record || worker[3].record)
#endif
#if TRAINERS == 1 || defined(IGNORE_TERM_PROMISE) || defined(ACCEPT_OLD_TERM_ATTEMPTS)
#define MAY_FORGET 0
#else
#define MAY_FORGET (ALL_LEFT && trainer[1].phase != Absent)
#endif
inline ForgetTrainer1() {
  if
  :: MAY_FORGET ->
    trainer[1].phase = Absent;
    trainer[1].roster = 0;
    trainer[1].step = 0;
    trainer[1].routes = 0;
    trainer[1].reduces = 0;
    trainer[1].k[0] = 0;
    trainer[1].k[1] = 0;
    for (i : 0 .. 2 * MICROBATCHES - 1) {
      trainer[1].owner[i] = 0;
      trainer[1].attempt[i] = 0;
      trainer[1].revoking[i] = 0
    };
#if CUTS
    for (i : 0 .. MICROBATCHES - 1) { trainer[1].taken_back[i] = 0 };
    for (i : 0 .. ROUTES_PER_TERM - 1) {
      route[i].lost = 0;
      route[i].twice[0] = 0;
      route[i].twice[1] = 0
    };
    for (i : 1 .. REDUCES_PER_TERM) {
      reduce[i].broken = 0;
      reduce[i].lost = 0
    };
#endif
    for (i : 0 .. ROUTES_PER_TERM - 1) {
      route[i].sent = 0;
      route[i].step = 0;
      route[i].microbatch = 0;
      route[i].roster = 0;
      route[i].forwarded = 0;
      route[i].returned = 0;
      route[i].finished = 0;
      for (j : 0 .. 1) {
        route[i].worker[j] = 0;
        route[i].attempt[j] = 0;
        route[i].folds[j] = 0
      }
    };
    for (i : 1 .. REDUCES_PER_TERM) {  /* the step still says for which reduce a worker is frozen */
      reduce[i].participants = 0;
      reduce[i].roster = 0;
      reduce[i].claims = 0;
      reduce[i].frozen = 0;
      reduce[i].reduced = 0;
      reduce[i].refused = 0;
      reduce[i].thawed = 0;
#ifdef FRAGMENTS
      reduce[i].kept = 0;
#endif
      reduce[i].sum = 0
    };
    for (i : 0 .. STEPS - 1) {
      record[i].sent = 0;
      record[i].roster = 0;
      if
      :: !ANY_APPLIED ->
        record[i].k[0] = 0;
        record[i].k[1] = 0
      :: else
      fi
    };
    for (i : 0 .. WORKERS - 1) {
      for (j : 0 .. MICROBATCHES - 1) { worker[i].closed[j] = 0 };
      skip
    };
    skip
  :: else
  fi
}

/* After a promise, a worker refuses control of a lower term. */
#ifdef IGNORE_TERM_PROMISE
#define ACCEPTS(w, term) (!worker[w].crashed)
#else
#define ACCEPTS(w, term) (!worker[w].crashed && (term) >= worker[w].promised)
#endif

/* A promise closes every attempt of a lower term that has not folded; Revoke and Void close single
 * attempts. */
#ifdef ACCEPT_OLD_TERM_ATTEMPTS
#define OPEN(w, r, s) (route[r].attempt[s] > worker[w].closed[route[r].microbatch])
#else
#define OPEN(w, r, s) (ROUTE_TERM(r) >= worker[w].promised && \
                       route[r].attempt[s] > worker[w].closed[route[r].microbatch])
#endif

/* A worker refuses frames of a sender if it knows of the sender's eviction. HEAR_EVICTED drops this
 * check: safety does not depend on it. */
#ifdef HEAR_EVICTED
#define HEARS(w, sender) (1)
#else
#define HEARS(w, sender) HAS(worker[w].roster, sender)
#endif

/* Whether a frame between two workers can arrive now: directly, or through a third worker that has
 * not crashed and is a member. It keeps its name on the way, so the receiver judges it as any other. */
#if CUTS
#define IS_END(w) ((w) == PAIR_A || (w) == PAIR_B)
#define IS_PAIR(a, b) (IS_END(a) && IS_END(b) && (a) != (b))
#define HAVE_BOTH(set) (HAS(set, PAIR_A) && HAS(set, PAIR_B))
#define RELAYS(w) (!IS_END(w) && !worker[w].crashed && HAS(trainer[NEWEST].roster, w))
#if defined(NO_RELAY)
#define HAS_RELAY 0
#elif WORKERS == 3
#define HAS_RELAY (RELAYS(0) || RELAYS(1) || RELAYS(2))
#else
#define HAS_RELAY (RELAYS(0) || RELAYS(1) || RELAYS(2) || RELAYS(3))
#endif
#define IS_OPEN_WAY (!broken || HAS_RELAY)
#define REACHES(a, b) (!IS_PAIR(a, b) || IS_OPEN_WAY)
#define ARRIVES(r) (!route[r].lost && REACHES(route[r].worker[0], route[r].worker[1]))
/* A frame that has come through a third worker may come directly, too. */
#define COMES_TWICE(r, s) (cuts == 0 && !route[r].twice[s] && \
                           IS_PAIR(route[r].worker[0], route[r].worker[1]))
#define SUMS_ARRIVE(w, n) (!(IS_END(w) && HAVE_BOTH(reduce[n].participants)) || \
                           (!reduce[n].lost && IS_OPEN_WAY))
#else
#define ARRIVES(r) 1
#define COMES_TWICE(r, s) 0
#define SUMS_ARRIVE(w, n) 1
#endif

#define FOLDED(w, m) HAS(worker[w].folded, m)
#define TAKES_PART(w, r, s) (route[r].sent && route[r].worker[s] == w && !worker[w].crashed && \
                             worker[w].version == route[r].step && OPEN(w, r, s))

/* Rosters only shrink: no worker joins here, and a takeover starts from the newest reported roster. */
inline LearnRoster(w, members) {
  worker[w].roster = worker[w].roster & members
}

inline Fold(w, r, s) {
  worker[w].sum = worker[w].sum + BIT(4 * route[r].microbatch);
  worker[w].folded = worker[w].folded | BIT(route[r].microbatch);
  printf("worker %d folds microbatch %d, attempt %d of stage %d\n", w, route[r].microbatch,
         route[r].attempt[s], s)
}

/* Stage 0 receives a task and sends its activations on. */
#define CAN_Start(w, r) (TAKES_PART(w, r, 0) && !route[r].forwarded)
inline Start(w, r) {
  LearnRoster(w, route[r].roster);
  route[r].forwarded = 1;
  printf("worker %d forwards route %d\n", w, r)
}

inline CountCopy(r, s, again) {
#if CUTS
  if
  :: again -> route[r].twice[s] = 1
  :: else
  fi
#else
  skip
#endif
}
/* A worker folds a microbatch once, however often its frames come. */
#ifdef FOLD_EVERY_COPY
#define IS_NEW(w, r) 1
#else
#define IS_NEW(w, r) (!FOLDED(w, route[r].microbatch))
#endif

/* Stage 1 receives activations; forward, loss, backward; it folds if the route says so and it has
 * not folded yet, and returns the gradients. While it is frozen, it cannot fold: the frame waits. */
#define MAY_FOLD(w, r) (FOLDED(w, route[r].microbatch) || !worker[w].frozen)
#define CAN_Turn(w, r) (TAKES_PART(w, r, 1) && route[r].forwarded && \
                        (!route[r].returned || COMES_TWICE(r, 1)) && ARRIVES(r) && \
                        HEARS(w, route[r].worker[0]) && (!route[r].folds[1] || MAY_FOLD(w, r)))
inline Turn(w, r) {
  CountCopy(r, 1, route[r].returned);
  route[r].returned = 1;
  printf("worker %d turns route %d\n", w, r);
  if
  :: route[r].folds[1] && IS_NEW(w, r) -> Fold(w, r, 1)
#ifdef FOLD_ON_PROPAGATE
  :: !route[r].folds[1] && !worker[w].frozen -> Fold(w, r, 1)
#endif
  :: else
  fi
}

/* Stage 0 receives the gradients. */
#define CAN_Finish(w, r) (TAKES_PART(w, r, 0) && route[r].returned && \
                          (!route[r].finished || COMES_TWICE(r, 0)) && ARRIVES(r) && \
                          HEARS(w, route[r].worker[1]) && (!route[r].folds[0] || MAY_FOLD(w, r)))
inline Finish(w, r) {
  CountCopy(r, 0, route[r].finished);
  route[r].finished = 1;
  if
  :: route[r].folds[0] && IS_NEW(w, r) -> Fold(w, r, 0)
#ifdef FOLD_ON_PROPAGATE
  :: !route[r].folds[0] && !worker[w].frozen -> Fold(w, r, 0)
#endif
  :: else
  fi
}

/* The sums of all participants for this k have arrived: the worker holds the result and reports it. */
#define CAN_Complete(w) (!worker[w].crashed && worker[w].frozen && !worker[w].reduced && \
                         HAS(reduce[worker[w].k].participants, w) && \
                         SUMS_ARRIVE(w, worker[w].k) && \
                         reduce[worker[w].k].frozen == reduce[worker[w].k].participants)
inline Complete(w) {
  worker[w].reduced = 1;
  reduce[worker[w].k].reduced = reduce[worker[w].k].reduced | BIT(w);
  printf("worker %d holds the result of k %d\n", w, worker[w].k)
}

/* Reduce(k): freeze if the fold set is exactly the claim, else refuse. A k below the highest one is
 * late. A worker that has applied the step is past it (`version`). */
#ifdef SKIP_CLAIM_EQUALITY
#define CLAIM_HOLDS(w, n) (1)
#else
#define CLAIM_HOLDS(w, n) (worker[w].folded == CLAIM(n, w))
#endif
#define CAN_Freeze(w, n) (HAS(reduce[n].participants, w) && ACCEPTS(w, REDUCE_TERM(n)) && \
                          worker[w].version == reduce[n].step && n > worker[w].k && \
                          (CLAIM_HOLDS(w, n) || !reduce[n].refused))
inline Freeze(w, n) {
  LearnRoster(w, reduce[n].roster);
  if
  :: CLAIM_HOLDS(w, n) ->
    worker[w].k = n;
    worker[w].frozen = 1;
    worker[w].reduced = 0;
    reduce[n].frozen = reduce[n].frozen | BIT(w);
    reduce[n].sum = reduce[n].sum + worker[w].sum;
#ifdef FRAGMENTS
    reduce[n].kept = reduce[n].kept + worker[w].kept;
#endif
    printf("worker %d freezes for k %d\n", w, n);
    if
    :: reduce[n].participants == BIT(w) -> Complete(w)
    :: else
    fi
  :: else ->
    reduce[n].refused = 1;
    printf("worker %d refuses k %d\n", w, n)
  fi
}

/* Thaw: the trainer has given k up, so the worker may fold again. If a new trainer finds no worker
 * that has applied the step, it gives up every k of its predecessor for that step. */
#if TRAINERS == 2
#define GIVEN_UP_BY_TAKEOVER(n) (REDUCE_TERM(n) == 1 && trainer[2].phase == Running && \
                                 reduce[n].step == trainer[2].step)
#else
#define GIVEN_UP_BY_TAKEOVER(n) (0)
#endif
#define CAN_Thaw(w) (worker[w].frozen && \
                     ((reduce[worker[w].k].thawed && ACCEPTS(w, REDUCE_TERM(worker[w].k))) || \
                      (GIVEN_UP_BY_TAKEOVER(worker[w].k) && HAS(trainer[TRAINERS].roster, w) && \
                       ACCEPTS(w, TRAINERS))))
inline Thaw(w) {
  worker[w].frozen = 0;
  worker[w].reduced = 0;
  printf("worker %d thaws\n", w)
}

/* Commit: a worker applies it if it holds the k that the record names. */
#ifdef APPLY_ANY_K
#define HOLDS(w, d) (worker[w].reduced)
#else
#define HOLDS(w, d) (worker[w].reduced && worker[w].k == record[d].k[STAGE(w)])
#endif
#ifdef ONLY_SAME_RESULT
#define IS_CHECKED(w, d) HOLDS(w, d)
#else
#define IS_CHECKED(w, d) 1
#endif
#define CAN_Apply(w, d, term, step_) (record[d].sent && HAS(record[d].roster, w) && \
                                      ACCEPTS(w, term) && worker[w].version == step_ && \
                                      IS_CHECKED(w, d))
inline Apply(w, d, term, step_) {
#ifndef NO_FENCING_PROPERTY
  Fencing = (term >= worker[w].promised);
  assert(Fencing);
#endif
  LearnRoster(w, record[d].roster);
#ifndef ONLY_SAME_RESULT
  AllOrNothing = HOLDS(w, d);
  assert(AllOrNothing);
#endif
  printf("worker %d applies k %d in step %d as trainer %d says\n", w, worker[w].k, step_, term);
  worker[w].applied[step_] = worker[w].k;
  worker[w].version = step_ + 1;
  worker[w].record = d + 1;
  CheckAllOrNothing(w, d, step_);
  for (i : 0 .. MICROBATCHES - 1) { worker[w].closed[i] = 0 };
#ifdef FRAGMENTS
#ifdef KEEP_THE_WHOLE_SUM
  worker[w].kept = reduce[worker[w].k].sum;
#else
  worker[w].kept = worker[w].sum;
#endif
#endif
  worker[w].folded = 0;
  worker[w].sum = 0;
  worker[w].frozen = 0;
  worker[w].reduced = 0
}

/* Revoke: the worker answers Closed; if it has folded, it closes nothing and is credited. */
#define CAN_Close(w, t, m) (ACCEPTS(w, t) && trainer[t].phase == Running && \
                            trainer[t].revoking[CELL(m, STAGE(w))] && \
                            trainer[t].owner[CELL(m, STAGE(w))] == w && \
                            worker[w].version == trainer[t].step && !FOLDED(w, m) && \
                            worker[w].closed[m] < trainer[t].attempt[CELL(m, STAGE(w))])
inline Close(w, t, m) {
  worker[w].closed[m] = trainer[t].attempt[CELL(m, STAGE(w))];
  printf("worker %d closes attempt %d of microbatch %d\n", w, worker[w].closed[m], m)
}

/* Void: the worker drops all folds of this step; the weights stay. */
#define CAN_Void(w) (worker[w].voiding && ACCEPTS(w, worker[w].voiding))
inline Void(w) {
  worker[w].folded = 0;
  worker[w].sum = 0;
  worker[w].frozen = 0;
  worker[w].reduced = 0;
  for (i : 0 .. MICROBATCHES - 1) {
    worker[w].closed[i] = trainer[worker[w].voiding].attempt[CELL(i, STAGE(w))]
  }
  worker[w].voiding = 0;
  printf("worker %d voids its folds\n", w)
}

/* A roster that arrives alone. (NO_LONE_ROSTER excludes this in the larger configurations.) */
#ifdef NO_LONE_ROSTER
#define ROSTERS_COME_ALONE 0
#else
#define ROSTERS_COME_ALONE 1
#endif
#define CAN_Hear(w, t) (ROSTERS_COME_ALONE && ACCEPTS(w, t) && HAS(trainer[t].roster, w) && \
                        trainer[t].phase == Running && \
                        (worker[w].roster & trainer[t].roster) != worker[w].roster)
inline Hear(w, t) {
  LearnRoster(w, trainer[t].roster);
  printf("worker %d hears the roster %d of trainer %d\n", w, trainer[t].roster, t)
}

/* Takeover: the promise. The worker's answer reports its state, which stays true from here on: it
 * refuses old control and closes old attempts. It keeps what it has frozen and reduced, because it
 * may lag by a commit that needs it. The first worker that promises begins the takeover. */
#define CAN_Promise(w) (!worker[w].crashed && worker[w].promised < 2)
inline Promise(w) {
  printf("worker %d promises term 2\n", w);
  worker[w].promised = 2;
#ifdef THAW_AT_PROMISE
  worker[w].frozen = 0;
  worker[w].reduced = 0;
#endif
  if
  :: trainer[2].phase == Absent ->
    trainer[2].phase = TakingOver;
    trainer[2].roster = ALL_WORKERS  /* until it learns more: all workers except those that it evicts */
  :: else
  fi;
  ForgetTrainer1()
}

#if CUTS
/* What the two exchange is on its way: with `loses` it never arrives. The trainer hears of the pair
 * and may take back what needs it. */
inline Break(loses) {
  for (i : 0 .. ROUTES - 1) {
    if
    :: loses && IS_PAIR(route[i].worker[0], route[i].worker[1]) &&
       ((route[i].forwarded && !route[i].returned) || (route[i].returned && !route[i].finished)) ->
      route[i].lost = 1
    :: else
    fi
  };
  for (i : 1 .. REDUCES - 1) {
    if
    :: HAVE_BOTH(reduce[i].participants) && reduce[i].reduced != reduce[i].participants ->
      reduce[i].broken = 1;
      reduce[i].lost = loses && reduce[i].frozen
    :: else
    fi
  };
  for (i : 1 .. TRAINERS) {
    for (j : 0 .. MICROBATCHES - 1) {
      if
      :: trainer[i].phase == Running &&
         IS_PAIR(trainer[i].owner[CELL(j, 0)], trainer[i].owner[CELL(j, 1)]) ->
        trainer[i].taken_back[j] = 1
      :: else
      fi
    };
    skip
  };
  skip
}
#define CAN_Cut(loses) (cuts > 0)
inline Cut(loses) {
  cuts = 0;
  broken = 1;
  printf("worker %d and worker %d lose each other, and what was on its way: %d\n", PAIR_A, PAIR_B,
         loses);
  Break(loses)
}
#define CAN_Heal() (broken && heals > 0)
inline Heal() {
  heals = 0;
  broken = 0;
  printf("worker %d and worker %d reach each other again\n", PAIR_A, PAIR_B)
}
#endif

#define CAN_Crash(w) (crashes > 0 && HAS(MAY_CRASH, w) && !worker[w].crashed)
/* Its state is gone. (If a trainer has read it before, this equals a run with a later crash.) */
inline Crash(w) {
  printf("worker %d crashes\n", w);
  crashes--;
  worker[w].crashed = 1;
  worker[w].promised = 0;
  worker[w].roster = 0;
  worker[w].version = 0;
#ifdef FRAGMENTS
  worker[w].kept = 0;
#endif
  worker[w].folded = 0;
  worker[w].sum = 0;
  for (i : 0 .. MICROBATCHES - 1) { worker[w].closed[i] = 0 };
  for (i : 0 .. STEPS - 1) { worker[w].applied[i] = 0 };
  worker[w].k = 0;
  worker[w].frozen = 0;
  worker[w].reduced = 0;
  worker[w].voiding = 0;
  worker[w].record = 0;
#if CUTS
  if  /* (if the pair heals, what this worker carried for it may still come directly) */
  :: broken && !IS_END(w) && !HEALS -> Break(1)
  :: else
  fi;
#endif
  ForgetTrainer1()
}

/* ==== TRAINERS ==== */

#define RUNS(t) (trainer[t].phase == Running)
#define OWNER(t, m, s) trainer[t].owner[CELL(m, s)]
#define IN_ROSTER(t, w) HAS(trainer[t].roster, w)
#define HAS_FOLDED(t, w, m) (worker[w].version == trainer[t].step && FOLDED(w, m))
#define IS_FOLDED(t, m, s) (IN_ROSTER(t, OWNER(t, m, s)) && HAS_FOLDED(t, OWNER(t, m, s), m))

/* A trainer may issue a cell again once its attempt can never fold into a sum that counts: the owner
 * is evicted, or has answered Closed, or has acknowledged a Void. */
#ifdef REISSUE_WITHOUT_REVOKE
#define IS_CLOSED(t, m, s) trainer[t].revoking[CELL(m, s)]
#else
#define IS_CLOSED(t, m, s) (trainer[t].revoking[CELL(m, s)] && \
                            worker[OWNER(t, m, s)].closed[m] >= trainer[t].attempt[CELL(m, s)])
#endif
#define IS_LOST(t, m, s) (!IN_ROSTER(t, OWNER(t, m, s)) || IS_CLOSED(t, m, s))

#define AWAITS_VOID(t, w) (IN_ROSTER(t, w) && worker[w].voiding == t)
#if WORKERS == 3
#define VOIDS_DONE(t) (!AWAITS_VOID(t, 0) && !AWAITS_VOID(t, 1) && !AWAITS_VOID(t, 2))
#else
#define VOIDS_DONE(t) (!AWAITS_VOID(t, 0) && !AWAITS_VOID(t, 1) && !AWAITS_VOID(t, 2) && \
                       !AWAITS_VOID(t, 3))
#endif

/* Issue: a lost cell gets a new owner and attempt, the other cells keep theirs ("splice"), and the
 * microbatch gets a new route; a stage that has folded only propagates. */
#ifdef TAKEOVER_DROPS_APPLIED_RECORD
#define SERVES(t, w) (IN_ROSTER(t, w) && worker[w].version == trainer[t].step)
#else
#define SERVES(t, w) IN_ROSTER(t, w)
#endif
/* Replicas of a stage are alike until the first route: it takes the first ones. */
#define IS_FIRST(t, s, w) ((trainer[t].roster & MEMBERS(s) & (BIT(w) - 1)) == 0)
#define MAY_OWN(t, m, s, w) (IS_LOST(t, m, s) -> \
                             SERVES(t, w) && (t == 2 || trainer[t].routes || IS_FIRST(t, s, w)) : \
                             OWNER(t, m, s) == w)
#define CAN_Issue(t, m, w0, w1) (RUNS(t) && (IS_LOST(t, m, 0) || IS_LOST(t, m, 1)) && \
                                 VOIDS_DONE(t) && MAY_OWN(t, m, 0, w0) && \
                                 MAY_OWN(t, m, 1, w1) && MAY_SEND(w0, w1))
#if CUTS && !defined(IGNORE_BROKEN_PAIR)
#define MAY_SEND(w0, w1) REACHES(w0, w1)
/* From the stage that holds it up: the later one, unless that has folded. */
#define IS_TAKEN_BACK(t, m, s) (trainer[t].taken_back[m] && (s == 1 || IS_FOLDED(t, m, 1)))
#else
#define MAY_SEND(w0, w1) 1
#define IS_TAKEN_BACK(t, m, s) 0
#endif
#define NEXT_ROUTE(t) ((t - 1) * ROUTES_PER_TERM + trainer[t].routes)
inline IssueCell(t, m, s, w) {
  if
  :: IS_LOST(t, m, s) ->
    OWNER(t, m, s) = w;
    trainer[t].attempt[CELL(m, s)]++;
    trainer[t].revoking[CELL(m, s)] = 0
  :: else
  fi;
  route[x].worker[s] = w;
  route[x].attempt[s] = trainer[t].attempt[CELL(m, s)];
  route[x].folds[s] = !HAS_FOLDED(t, w, m)
}
inline Issue(t, m, w0, w1) {
  TableHasRoom = (trainer[t].routes < ROUTES_PER_TERM);
  assert(TableHasRoom);
  x = NEXT_ROUTE(t);
  trainer[t].routes++;
  route[x].sent = 1;
  route[x].step = trainer[t].step;
  route[x].microbatch = m;
  route[x].roster = trainer[t].roster;
#if CUTS
  trainer[t].taken_back[m] = 0;
#endif
  IssueCell(t, m, 0, w0);
  IssueCell(t, m, 1, w1);
  printf("trainer %d issues microbatch %d of step %d as route %d: ", t, m, trainer[t].step, x);
  printf("workers %d (folds: %d), %d (folds: %d)\n", w0, route[x].folds[0], w1, route[x].folds[1])
}

/* Revoke a straggler's attempt, or one whose frames may be lost between two workers. */
#define CAN_Revoke(t, m, s) (RUNS(t) && (revokes > 0 || IS_TAKEN_BACK(t, m, s)) && \
                             trainer[t].k[s] == 0 && \
                             IN_ROSTER(t, OWNER(t, m, s)) && !IS_FOLDED(t, m, s) && \
                             !trainer[t].revoking[CELL(m, s)])
inline Revoke(t, m, s) {
  if
  :: !IS_TAKEN_BACK(t, m, s) -> revokes--
  :: else
  fi;
  trainer[t].revoking[CELL(m, s)] = 1;
  printf("trainer %d revokes microbatch %d from worker %d\n", t, m, OWNER(t, m, s))
}

/* Evict: a new epoch of the roster. The trainer gives up a reduce in which the lost worker takes
 * part. */
#define SEEMS_DEAD(w) (worker[w].crashed || (suspicions > 0 && HAS(MAY_SUSPECT, w)))
inline Suspect(w) {
  if
  :: !worker[w].crashed ->
    suspicions--;
    suspected = suspected | BIT(w)
  :: else
  fi
}
#define CAN_Evict(t, w) (RUNS(t) && IN_ROSTER(t, w) && SEEMS_DEAD(w))
inline GiveUpReduce(t, s) {
  if
  :: trainer[t].k[s] ->
    reduce[trainer[t].k[s]].thawed = 1;
    trainer[t].k[s] = 0
  :: else
  fi
}
inline WaitIfStageIsEmpty(t) {
  if
  :: (trainer[t].roster & MEMBERS(0)) == 0 || (trainer[t].roster & MEMBERS(1)) == 0 ->
    trainer[t].phase = Waiting;
    printf("trainer %d waits: a stage has no replica\n", t)
  :: else
  fi
}
inline Evict(t, w) {
  Suspect(w);
  trainer[t].roster = trainer[t].roster & (ALL_WORKERS - BIT(w));
  GiveUpReduce(t, STAGE(w));
  printf("trainer %d evicts worker %d\n", t, w);
  WaitIfStageIsEmpty(t)
}

#if CUTS
/* As far as the trainer knows, no third worker reaches both: one of the two goes, never the last of
 * its stage. */
#ifdef NO_RELAY
#define KNOWS_RELAY(t) 0
#else
#define KNOWS_RELAY(t) ((trainer[t].roster & (ALL_WORKERS - BIT(PAIR_A) - BIT(PAIR_B))) != 0)
#endif
#define CAN_EvictUnreachable(t, w) (RUNS(t) && broken && !KNOWS_RELAY(t) && IS_END(w) && \
                                    HAVE_BOTH(trainer[t].roster) && \
                                    (trainer[t].roster & MEMBERS(STAGE(w))) != BIT(w))
inline EvictUnreachable(t, w) {
  suspected = suspected | BIT(w);
  trainer[t].roster = trainer[t].roster & (ALL_WORKERS - BIT(w));
  GiveUpReduce(t, STAGE(w));
  printf("trainer %d evicts worker %d, which does not reach another\n", t, w)
}
#define SUM_IS_POSSIBLE(t, s) (STAGE(PAIR_A) != s || STAGE(PAIR_B) != s || \
                               !HAVE_BOTH(trainer[t].roster) || IS_OPEN_WAY)
#define PAIR_BROKE(n) reduce[n].broken
#else
#define SUM_IS_POSSIBLE(t, s) 1
#define PAIR_BROKE(n) 0
#endif

/* Two members have folded the same microbatch: the trainer voids one of them, whose other cells are
 * then lost. (A takeover can find this: see FinishTakeover.) */
#ifdef SKIP_VOID
#define OVERLAPS(t, w, m) 0
#else
#define OVERLAPS(t, w, m) (IN_ROSTER(t, w) && OWNER(t, m, STAGE(w)) != w && \
                           IS_FOLDED(t, m, STAGE(w)) && HAS_FOLDED(t, w, m))
#endif
#if MICROBATCHES == 1
#define OVERLAPS_ANY(w) OVERLAPS(t, w, 0)
#else
#define OVERLAPS_ANY(w) (OVERLAPS(t, w, 0) || OVERLAPS(t, w, 1))
#endif
#if WORKERS == 3
#define MUST_VOID (OVERLAPS_ANY(0) || OVERLAPS_ANY(1) || OVERLAPS_ANY(2))
#else
#define MUST_VOID (OVERLAPS_ANY(0) || OVERLAPS_ANY(1) || OVERLAPS_ANY(2) || OVERLAPS_ANY(3))
#endif
#define CAN_AskVoid(t, w) (RUNS(t) && IN_ROSTER(t, w) && trainer[t].k[STAGE(w)] == 0 && \
                           worker[w].voiding == 0 && OVERLAPS_ANY(w))
inline AskVoid(t, w) {
  worker[w].voiding = t;
  for (i : 0 .. MICROBATCHES - 1) {
    if
    :: OWNER(t, i, STAGE(w)) == w -> OWNER(t, i, STAGE(w)) = NOBODY
    :: else
    fi
  }
  printf("trainer %d voids what worker %d has folded\n", t, w)
}

/* Reduce: every cell of the stage is folded, as far as the trainer knows. (Workers may refuse a
 * mutant's reduces without end; it stops when the table is full.) */
#ifdef FIRST_TRAINER_ENDS_BEFORE_REDUCE  /* for the largest configuration */
#define REACHES_REDUCE(t) (t == 2)
#else
#define REACHES_REDUCE(t) 1
#endif
#ifdef MUTANT
#define ROOM_FOR_MUTANT(t) (trainer[t].reduces < REDUCES_PER_TERM)
#else
#define ROOM_FOR_MUTANT(t) 1
#endif
#define MAY_CLAIM(m, s) (!IS_LOST(t, m, s) && (IS_FOLDED(t, m, s) || wrong_hints > 0))
#define IS_CLAIMED(m, s) IS_FOLDED(t, m, s)
#define CAN_Ask(t, s) (RUNS(t) && ROOM_FOR_MUTANT(t) && REACHES_REDUCE(t) && \
                       trainer[t].k[s] == 0 && VOIDS_DONE(t) && !MUST_VOID && \
                       SUM_IS_POSSIBLE(t, s) && \
                       EVERY_M(MAY_CLAIM, s))
inline Ask(t, s) {
  TableHasRoom = (trainer[t].reduces < REDUCES_PER_TERM);
  assert(TableHasRoom);
  trainer[t].reduces++;
  x = (t - 1) * REDUCES_PER_TERM + trainer[t].reduces;
  trainer[t].k[s] = x;
  reduce[x].step = trainer[t].step;
  reduce[x].roster = trainer[t].roster;
  for (i : 0 .. WORKERS - 1) {
    if
    :: STAGE(i) == s && SERVES(t, i) ->
      reduce[x].participants = reduce[x].participants | BIT(i)
    :: else
    fi
  }
  for (i : 0 .. MICROBATCHES - 1) {
    reduce[x].claims = reduce[x].claims | BIT(2 * OWNER(t, i, s) + i)
  }
  if
  :: !EVERY_M(IS_CLAIMED, s) -> wrong_hints--
  :: else
  fi;
  printf("trainer %d asks stage %d to reduce, k %d, participants %d, claims %d\n", t, s, x,
         reduce[x].participants, reduce[x].claims)
}

/* Refused, or two participants have lost each other: the trainer gives k up and checks again. */
#define CAN_LookAgain(t, s) (RUNS(t) && trainer[t].k[s] && \
                             (reduce[trainer[t].k[s]].refused || PAIR_BROKE(trainer[t].k[s])))
inline LookAgain(t, s) {
  GiveUpReduce(t, s);
  printf("trainer %d gives up the reduce of stage %d\n", t, s)
}

/* Commit: every participant of every stage has reported the requested k. */
#ifdef COMMIT_AFTER_FIRST_REDUCED
#define IS_REDUCED(t, s) (trainer[t].k[s] && reduce[trainer[t].k[s]].reduced != 0)
#else
#define IS_REDUCED(t, s) (trainer[t].k[s] && \
                          reduce[trainer[t].k[s]].reduced == reduce[trainer[t].k[s]].participants)
#endif
#define CAN_Decide(t) (RUNS(t) && IS_REDUCED(t, 0) && IS_REDUCED(t, 1))
/* (step_ is a variable or a constant: an inline's arguments are text.) */
inline BeginStep(t, step_) {
  trainer[t].step = step_;
  for (i : 0 .. 2 * MICROBATCHES - 1) {
    trainer[t].owner[i] = NOBODY;
    trainer[t].attempt[i] = ATTEMPT(t, 0);
    trainer[t].revoking[i] = 0
  }
  trainer[t].phase = (step_ == STEPS -> Finished : Running)
}
inline Decide(t) {
  printf("trainer %d decides step %d with k %d and k %d\n", t, trainer[t].step, trainer[t].k[0],
         trainer[t].k[1]);
  CheckExactlyOnce(trainer[t].k[0], trainer[t].k[1]);
  x = RECORD(t, trainer[t].step);
  record[x].sent = 1;
  record[x].roster = trainer[t].roster;
  record[x].k[0] = trainer[t].k[0];
  record[x].k[1] = trainer[t].k[1];
  trainer[t].k[0] = 0;
  trainer[t].k[1] = 0;
  x = trainer[t].step + 1;
  BeginStep(t, x)
}

/* ---- takeover: the trainer of term 2. It begins with the first Promise. ---- */
#define ANSWERED(w) (worker[w].promised == 2)
#define REPORTED(w) (ANSWERED(w) -> worker[w].roster : ALL_WORKERS)
#if WORKERS == 3
#define ALL_ANSWERED (ANSWERED(0) + 2 * ANSWERED(1) + 4 * ANSWERED(2))
#define NEWEST_ROSTER (REPORTED(0) & REPORTED(1) & REPORTED(2))
#else
#define ALL_ANSWERED (ANSWERED(0) + 2 * ANSWERED(1) + 4 * ANSWERED(2) + 8 * ANSWERED(3))
#define NEWEST_ROSTER (REPORTED(0) & REPORTED(1) & REPORTED(2) & REPORTED(3))
#endif

#define CAN_EvictSilent(w) (trainer[2].phase == TakingOver && IN_ROSTER(2, w) && \
                            !ANSWERED(w) && SEEMS_DEAD(w))
inline EvictSilent(w) {
  Suspect(w);
  trainer[2].roster = trainer[2].roster & (ALL_WORKERS - BIT(w));
  printf("trainer 2 evicts worker %d, which does not answer\n", w)
}

/* All members of the newest reported roster have answered or are evicted. If one has applied a
 * step, the trainer sends its record again; the folds of the open step become the ledger. Two
 * members may have folded the same microbatch: the first owner was evicted, the second folded a
 * frame that arrived before the roster, and the sender of that frame has died. */
#define CAN_FinishTakeover() (trainer[2].phase == TakingOver && \
                            (NEWEST_ROSTER & trainer[2].roster & \
                             (ALL_WORKERS - (ALL_ANSWERED))) == 0)
inline FinishTakeover() {
#ifdef TAKEOVER_IGNORES_ROSTER
  trainer[2].roster = trainer[2].roster & (ALL_ANSWERED);
#else
  trainer[2].roster = trainer[2].roster & NEWEST_ROSTER;
#endif
  printf("trainer 2 takes over with roster %d\n", trainer[2].roster);
#ifdef TAKEOVER_DROPS_APPLIED_RECORD
  x = STEPS;
  for (j : 0 .. WORKERS - 1) {
    if
    :: IN_ROSTER(2, j) && worker[j].version < x -> x = worker[j].version
    :: else
    fi
  }
#else
  x = 0;
  for (j : 0 .. WORKERS - 1) {
    if
    :: IN_ROSTER(2, j) && worker[j].version > x ->
      x = worker[j].version;
      record[RECORD(2, x - 1)].k[0] = record[worker[j].record - 1].k[0];
      record[RECORD(2, x - 1)].k[1] = record[worker[j].record - 1].k[1]
    :: else
    fi
  }
  if
  :: x > 0 ->
    record[RECORD(2, x - 1)].sent = 1;
    record[RECORD(2, x - 1)].roster = trainer[2].roster
  :: else
  fi;
#endif
  BeginStep(2, x);
  for (i : 0 .. MICROBATCHES - 1) {
    for (j : 0 .. WORKERS - 1) {
      if
      :: IN_ROSTER(2, j) && OWNER(2, i, STAGE(j)) == NOBODY && HAS_FOLDED(2, j, i) ->
        OWNER(2, i, STAGE(j)) = j
      :: else
      fi
    }
  }
  WaitIfStageIsEmpty(2)
}

/* ==== the processes ==== */

#define ON(action, ...) :: d_step { CAN_##action(__VA_ARGS__) -> action(__VA_ARGS__) }
#define ON_ROUTE(n) ON(Start, w, n) ON(Turn, w, n) ON(Finish, w, n)
#define ON_REDUCE(n) ON(Freeze, w, n)

proctype RunWorker(byte w) {
end:
  do
  ON_ROUTE(0)
#if ROUTES > 1
  ON_ROUTE(1)
#endif
#if ROUTES > 2
  ON_ROUTE(2)
#endif
#if ROUTES > 3
  ON_ROUTE(3)
#endif
#if ROUTES > 4
  ON_ROUTE(4)
#endif
#if ROUTES > 5
  ON_ROUTE(5)
#endif
#if ROUTES > 6
  ON_ROUTE(6)
#endif
#if ROUTES > 7
  ON_ROUTE(7)
#endif
#if ROUTES > 8
  ON_ROUTE(8)
#endif
#if ROUTES > 9
  ON_ROUTE(9)
#endif
#if ROUTES > 10
  ON_ROUTE(10)
#endif
#if ROUTES > 11
  ON_ROUTE(11)
#endif
  ON_REDUCE(1)
  ON_REDUCE(2)
#if REDUCES > 3
  ON_REDUCE(3)
#endif
#if REDUCES > 4
  ON_REDUCE(4)
#endif
#if REDUCES > 5
  ON_REDUCE(5)
#endif
#if REDUCES > 6
  ON_REDUCE(6)
#endif
#if REDUCES > 7
  ON_REDUCE(7)
#endif
#if REDUCES > 8
  ON_REDUCE(8)
#endif
#if REDUCES > 9
  ON_REDUCE(9)
#endif
#if REDUCES > 10
  ON_REDUCE(10)
#endif
#if REDUCES > 11
  ON_REDUCE(11)
#endif
#if REDUCES > 12
  ON_REDUCE(12)
#endif
#if ROUTES > 12 || REDUCES > 13
#error more messages than these loops ask for
#endif
  ON(Complete, w)
  ON(Thaw, w)
  ON(Apply, w, RECORD(1, 0), 1, 0)
  ON(Close, w, 1, 0)
  ON(Hear, w, 1)
#if STEPS == 2
  ON(Apply, w, RECORD(1, 1), 1, 1)
#endif
#if MICROBATCHES == 2
  ON(Close, w, 1, 1)
#endif
#if TRAINERS == 2
  ON(Apply, w, RECORD(2, 0), 2, 0)
  ON(Close, w, 2, 0)
  ON(Hear, w, 2)
  ON(Promise, w)
#if STEPS == 2
  ON(Apply, w, RECORD(2, 1), 2, 1)
#endif
#if MICROBATCHES == 2
  ON(Close, w, 2, 1)
#endif
#endif
  ON(Void, w)
  ON(Crash, w)
  od
}

#define ON_ISSUE(m, w0, w1) ON(Issue, t, m, w0, w1)

proctype RunTrainer(byte t) {
end:
  do
  EACH_ROUTE_WORKERS(ON_ISSUE, 0)
  ON(Revoke, t, 0, 0) ON(Revoke, t, 0, 1)
#if MICROBATCHES == 2
  EACH_ROUTE_WORKERS(ON_ISSUE, 1)
  ON(Revoke, t, 1, 0) ON(Revoke, t, 1, 1)
#endif
  ON(Evict, t, 0) ON(Evict, t, 1) ON(Evict, t, 2)
  ON(AskVoid, t, 0) ON(AskVoid, t, 1) ON(AskVoid, t, 2)
#if WORKERS == 4
  ON(Evict, t, 3)
  ON(AskVoid, t, 3)
#endif
#if CUTS && !defined(IGNORE_BROKEN_PAIR)
  ON(EvictUnreachable, t, PAIR_A) ON(EvictUnreachable, t, PAIR_B)
#endif
  ON(Ask, t, 0) ON(Ask, t, 1)
  ON(LookAgain, t, 0) ON(LookAgain, t, 1)
  ON(Decide, t)
  od
}

#if TRAINERS == 2
proctype RunTakeover() {
end:
  do
  ON(EvictSilent, 0) ON(EvictSilent, 1) ON(EvictSilent, 2)
#if WORKERS == 4
  ON(EvictSilent, 3)
#endif
  ON(FinishTakeover)
  od
}
#endif

#if CUTS
proctype RunPair() {
end:
  do
  ON(Cut, 0) ON(Cut, 1)
  ON(Heal)
  od
}
#endif

/* Progress. Every action makes a number grow that never shrinks (the run without cycles in check.py
 * shows it), so every run ends. At its end, the newest trainer has seen its members apply every
 * step, or some stage has lost all its replicas. */
#define IS_BEHIND(w) (IN_ROSTER(LAST, w) && !worker[w].crashed && worker[w].version < STEPS)
#define IS_GONE(w) (worker[w].crashed || HAS(suspected, w))
#if TRAINERS == 2
#define LAST (trainer[2].phase == Absent -> 1 : 2)
#else
#define LAST 1
#endif
#if LAYOUT == 21
#define STAGE_IS_GONE ((IS_GONE(0) && IS_GONE(1)) || IS_GONE(2))
#elif LAYOUT == 12
#define STAGE_IS_GONE (IS_GONE(0) || (IS_GONE(1) && IS_GONE(2)))
#else
#define STAGE_IS_GONE ((IS_GONE(0) && IS_GONE(1)) || (IS_GONE(2) && IS_GONE(3)))
#endif
#if WORKERS == 3
#define NOBODY_IS_BEHIND (!IS_BEHIND(0) && !IS_BEHIND(1) && !IS_BEHIND(2))
#else
#define NOBODY_IS_BEHIND (!IS_BEHIND(0) && !IS_BEHIND(1) && !IS_BEHIND(2) && !IS_BEHIND(3))
#endif

/* No third worker reaches both, and neither may go: the job waits for the pair. */
#if CUTS
#define WAITS_FOR_PAIR (broken && !HAS_RELAY && HAVE_BOTH(trainer[LAST].roster) && \
                        !CAN_EvictUnreachable(LAST, PAIR_A) && !CAN_EvictUnreachable(LAST, PAIR_B))
#else
#define WAITS_FOR_PAIR 0
#endif

proctype Watch() {
end:
#ifdef MUTANT
  false;
#endif
  timeout;
  Progress = ((trainer[LAST].phase == Finished && NOBODY_IS_BEHIND) || STAGE_IS_GONE ||
              WAITS_FOR_PAIR);
  assert(Progress)
}

init {
  d_step {
    for (i : 0 .. WORKERS - 1) {
      worker[i].promised = 1;
      worker[i].roster = ALL_WORKERS
    };
    for (i : 1 .. TRAINERS) { trainer[i].phase = Absent };
    trainer[1].roster = ALL_WORKERS;
    BeginStep(1, 0)
  };
  atomic {
    run RunWorker(0);
    run RunWorker(1);
    run RunWorker(2);
#if WORKERS == 4
    run RunWorker(3);
#endif
    run RunTrainer(1);
#if TRAINERS == 2
    run RunTrainer(2);
    run RunTakeover();
#endif
#if CUTS
    run RunPair();
#endif
    run Watch()
  }
}
