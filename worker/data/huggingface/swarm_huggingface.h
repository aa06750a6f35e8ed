/* The C interface of libswarm_huggingface.so: Hugging Face's library of tokenizers, and minijinja
 * for chat templates. Both are written in Rust. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A tokenizer. It never changes, so any thread may use it. */
typedef struct SwarmHuggingFace SwarmHuggingFace;

/* A Jinja template of conversations. It never changes, so any thread may use it. */
typedef struct SwarmHuggingFaceTemplate SwarmHuggingFaceTemplate;

/* Borrowed bytes. `data` may be null where `size` is 0. */
typedef struct {
  const char* data;
  size_t size;
} SwarmHuggingFaceView;

/* Results that the caller owns; free them with the functions below. Text is UTF-8 and has no zero
   at its end. */
typedef struct {
  char* data;
  size_t size;
} SwarmHuggingFaceText;

typedef struct {
  uint32_t* data;
  size_t size;
} SwarmHuggingFaceIds;

/* Where a call returns another code than Ok, *error is a text, and other results are not set. */
typedef enum {
  kSwarmHuggingFaceOk = 0,
  kSwarmHuggingFaceNotUtf8 = 1,
  kSwarmHuggingFaceRefused = 2,  /* by the library: no tokenizer, or a text that it cannot encode */
  kSwarmHuggingFacePanicked = 3, /* the library has a fault */
} SwarmHuggingFaceCode;

/* Makes a tokenizer of a tokenizer.json. What it says of truncation and padding is left out: every
   text is encoded whole, and nothing else. */
SwarmHuggingFaceCode swarm_huggingface_open(SwarmHuggingFaceView json,
                                            const SwarmHuggingFace** tokenizer,
                                            SwarmHuggingFaceText* error);
void swarm_huggingface_close(const SwarmHuggingFace* tokenizer);

/* The highest id plus one, added tokens included. */
uint32_t swarm_huggingface_vocabulary(const SwarmHuggingFace* tokenizer);

/* The id of a token, or -1. */
int64_t swarm_huggingface_id_of(const SwarmHuggingFace* tokenizer, SwarmHuggingFaceView token);

/* Encodes `count` texts, on all cores where there are several. Adds no token before or after a
   text; the names of special tokens within it become these. *ids has the ids of one text after the
   other, lengths[i] of them for text i. */
SwarmHuggingFaceCode swarm_huggingface_encode(const SwarmHuggingFace* tokenizer,
                                              const SwarmHuggingFaceView* texts, size_t count,
                                              SwarmHuggingFaceIds* ids, size_t* lengths,
                                              SwarmHuggingFaceText* error);

/* Leaves out special tokens, and ids that the tokenizer does not have. */
SwarmHuggingFaceCode swarm_huggingface_decode(const SwarmHuggingFace* tokenizer,
                                              const uint32_t* ids, size_t count,
                                              SwarmHuggingFaceText* text,
                                              SwarmHuggingFaceText* error);

/* Makes a template of its source. Refused: blocks that minijinja does not know. */
SwarmHuggingFaceCode swarm_huggingface_compile(SwarmHuggingFaceView source,
                                               const SwarmHuggingFaceTemplate** chat_template,
                                               SwarmHuggingFaceText* error);
void swarm_huggingface_close_template(const SwarmHuggingFaceTemplate* chat_template);

/* Renders it with the variables of a JSON object, as transformers renders a chat template;
   "generation" blocks show their content. Refused: what the template refuses (raise_exception),
   functions that minijinja does not know, variables that are no JSON. */
SwarmHuggingFaceCode swarm_huggingface_render(const SwarmHuggingFaceTemplate* chat_template,
                                              SwarmHuggingFaceView variables,
                                              SwarmHuggingFaceText* text,
                                              SwarmHuggingFaceText* error);

void swarm_huggingface_free_text(SwarmHuggingFaceText text);
void swarm_huggingface_free_ids(SwarmHuggingFaceIds ids);

#ifdef __cplusplus
}
#endif
