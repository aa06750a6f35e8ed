#include "ctl/report/report_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/hash.h"
#include "ctl/report/testing/recorded_run.h"
#include "ctl/run/start_note.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class ReportCommandTest : public testing::Test {
 protected:
  ExitCode Report(std::vector<std::filesystem::path> folders,
                  ReportFormat format = ReportFormat::kHtml) {
    err_.str("");
    out_.str("");
    return ReportRuns({.folders = std::move(folders), .format = format, .output = "-"}, out_, err_);
  }
  std::string Html(const RecordedRun& run) {
    Report({run.path()});
    return out_.str();
  }

  std::ostringstream out_, err_;
};

/// Nothing that a browser would load from elsewhere.
void ExpectLoadsNothing(const std::string& html) {
  EXPECT_THAT(html, Not(ContainsRegex("(src|href|action|data|poster)=[\"']?(https?:)?//")));
  EXPECT_THAT(html, Not(HasSubstr("http://")));
  EXPECT_THAT(html, Not(HasSubstr("https://")));
  EXPECT_THAT(html, Not(HasSubstr("url(")));
  EXPECT_THAT(html, Not(HasSubstr("@import")));
  EXPECT_THAT(html, Not(HasSubstr("<link")));
}

TEST_F(ReportCommandTest, TheReportLiesInTheFolderOfTheRun) {
  const RecordedRun run;
  EXPECT_EQ(ReportRuns({.folders = {run.path() + "/"}}, out_, err_), ExitCode::kOk) << err_.str();
  const auto html = ReadFile(run.path() + "/report.html");
  ASSERT_TRUE(html.ok());
  EXPECT_THAT(*html, HasSubstr("<h1>recorded</h1>"));
  EXPECT_THAT(*html, HasSubstr("The audit passed."));
  EXPECT_THAT(*html, HasSubstr(">Succeeded</span>"));
  EXPECT_THAT(*html, HasSubstr("swarmctl run -f "));
  EXPECT_THAT(out_.str(), HasSubstr("report.html"));
  ExpectLoadsNothing(*html);
}

TEST_F(ReportCommandTest, ALineOfTheLedgerThatAHandAlteredFailsVisibly) {
  RecordedRun run;
  run.Alter("ledger.jsonl", 4, R"("microbatches":[0,1])", R"("microbatches":[0])");
  EXPECT_EQ(Report({run.path()}), ExitCode::kFailed);
  const std::string html = out_.str();
  const std::size_t alarm = html.find("role=\"alert\"");
  ASSERT_NE(alarm, html.npos);
  EXPECT_LT(alarm, html.find("<h1>")) << "above all else";
  EXPECT_THAT(html, HasSubstr("step 3: microbatch 1 is not counted at stage 1"));
  EXPECT_THAT(html, Not(HasSubstr("The audit passed.")));
  EXPECT_THAT(err_.str(), HasSubstr("line 4"));
  EXPECT_EQ(Report({run.path()}, ReportFormat::kMarkdown), ExitCode::kFailed);
  EXPECT_THAT(out_.str(), HasSubstr("THE AUDIT FAILED"));
  EXPECT_EQ(Report({run.path()}, ReportFormat::kJson), ExitCode::kFailed);
  EXPECT_EQ(json::parse(out_.str())["runs"][0]["audit"]["verdict"], "Failed");
}

TEST_F(ReportCommandTest, TenThousandStepsWithManyFaultsFitInTwoMegabytes) {
  RecordedRun run({.steps = 10'000});
  for (int i = 0; i < 2'000; ++i) {
    run.log().Event(protocol::EventKind::kWorkerLost,
                    "worker-" + std::to_string(i) + " of stage 0: its connection is gone");
  }
  const std::string html = Html(run);
  EXPECT_LT(html.size(), 2'000'000u);
  EXPECT_GT(html.size(), 50'000u) << "the curves are there";
  EXPECT_THAT(html, HasSubstr("10,000"));
  ExpectLoadsNothing(html);
}

TEST_F(ReportCommandTest, NamesOfARunBecomeNoMarkup) {
  RecordedRun run({.overrides = {"data.uri='<script>alert(1)</script>.txt'"}});
  run.log().Event(protocol::EventKind::kWorkerLost, "<img src=x onerror=alert(2)> \"' &");
  run.Alter("ledger.jsonl", 1, "worker-0", "<b>worker</b>");
  const std::string html = Html(run);
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, Not(HasSubstr("<b>worker")));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;.txt"));
  EXPECT_THAT(html, HasSubstr("&lt;img src=x onerror=alert(2)&gt; &quot;&#39; &amp;"));
  Report({run.path()}, ReportFormat::kMarkdown);
  EXPECT_THAT(out_.str(), Not(HasSubstr("<script>alert(1)</script>.txt with")));
}

TEST_F(ReportCommandTest, OnlyFieldsThatHadToBeWrittenAreTold) {
  const RecordedRun run({.overrides = {"optimizer.learningRate=0.01"}});
  Report({run.path()}, ReportFormat::kJson);
  const json changed = json::parse(out_.str())["runs"][0]["changedFields"];
  EXPECT_EQ(changed["optimizer.learningRate"], 0.01);
  EXPECT_EQ(changed["training.maxSteps"], 8);
  EXPECT_EQ(changed["workers.replicas"], 3);
  EXPECT_FALSE(changed.contains("optimizer.beta1"));
  EXPECT_FALSE(changed.contains("workers.minReplicas")) << "follows from the stages";
}

TEST_F(ReportCommandTest, DollarsAreToldWhereThePoolsHavePrices) {
  // Eight steps of half a second, with three workers at a quarter of a dollar a second.
  RecordedRun run({.overrides = {"workers.pools=[{name: spot, machine: {teraflops: 1,"
                                 " dollarsPerHour: 900}}]"}});
  for (std::size_t line = 1; line <= 8; ++line) {
    run.Alter("steps.jsonl", line, "{",
              R"({"stages":[{"workers":3,"task_seconds":0.1,"busy_seconds":0.1,)"
              R"("reduce_seconds":0}],)");
  }
  EXPECT_THAT(Html(run), HasSubstr("$3.00"));
  Report({run.path()}, ReportFormat::kJson);
  EXPECT_EQ(json::parse(out_.str())["runs"][0]["dollars"]["most"], 3);
  const RecordedRun free;
  EXPECT_THAT(Html(free), Not(HasSubstr("Dollars")));
  Report({run.path(), free.path()}, ReportFormat::kMarkdown);
  EXPECT_THAT(out_.str(), HasSubstr("| Dollars | $3.00 | - |"));
}

TEST_F(ReportCommandTest, WhatTheFolderDoesNotHaveIsTold) {
  RecordedRun run;
  run.Remove("ledger.jsonl");
  EXPECT_EQ(Report({run.path()}), ExitCode::kOk) << "a run of one process has no account";
  EXPECT_THAT(out_.str(), HasSubstr("There is no ledger to audit"));
  EXPECT_THAT(out_.str(), HasSubstr("swarmctl train -f "));
  EXPECT_THAT(out_.str(), HasSubstr("Validation losses: the job has no validation data."));
}

TEST_F(ReportCommandTest, TheCommandThatBeganARunIsToldIntoAnotherFolder) {
  const RecordedRun run;
  const TemporaryFolder folder;
  const std::string corpus = folder.Put("corpus.txt", "In the beginning");
  ASSERT_TRUE(NoteStart(run.path(),
                        {"1.2.3 (abc)",
                         {"build/bin/swarmctl", "run", "-f", "my job.yaml", "--out", "out/x",
                          "--chaos", "kill any at step 3"}},
                        {.uri = corpus}, /*resume=*/false)
                  .ok());
  EXPECT_EQ(Report({run.path()}), ExitCode::kOk) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("swarmctl run -f &#39;my job.yaml&#39; --chaos &#39;kill any at"
                                    " step 3&#39; --out "));
  EXPECT_THAT(out_.str(), HasSubstr("1.2.3 (abc)"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("The version of the programs")));
  EXPECT_THAT(out_.str(), HasSubstr(corpus));
  EXPECT_THAT(
      out_.str(),
      HasSubstr(
          ComputeDigest(std::as_bytes(std::span(std::string_view("In the beginning")))).Hex()));
}

TEST_F(ReportCommandTest, TheTextOfTheNewestCheckpointIsASampleAndNoMarkup) {
  const RecordedRun run;
  ReportOptions options{.folders = {run.path()}, .output = "-"};
  options.sample = [&](const std::filesystem::path& folder, const std::string& prompt) {
    EXPECT_EQ(folder, run.path());
    return Result<std::string>(prompt + " <b>was</b>\n# the word");
  };
  EXPECT_EQ(ReportRuns(options, out_, err_), ExitCode::kOk);
  EXPECT_THAT(out_.str(), HasSubstr(" &lt;b&gt;was&lt;/b&gt;\n# the word</pre>"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("A sample of text:")));
  out_.str("");
  options.format = ReportFormat::kMarkdown;
  EXPECT_EQ(ReportRuns(options, out_, err_), ExitCode::kOk);
  EXPECT_THAT(out_.str(), HasSubstr("\n    # the word\n"));
}

TEST_F(ReportCommandTest, WithoutASampleTheReportSaysWhy) {
  const RecordedRun run;
  ReportOptions options{.folders = {run.path()}, .output = "-"};
  options.sample = [](const std::filesystem::path&, const std::string&) {
    return Result<std::string>(NotFound("there is no checkpoint"));
  };
  EXPECT_EQ(ReportRuns(options, out_, err_), ExitCode::kOk);
  EXPECT_THAT(out_.str(), HasSubstr("A sample of text (there is no checkpoint):"));
}

TEST_F(ReportCommandTest, WhereTheTimeOfEachStageWentIsATable) {
  RecordedRun run;
  run.log().Step({.record = {.step = protocol::Step(8)},
                  .tokens = 128,
                  .seconds = 10,
                  .times = {{.workers = 2, .task_seconds = 15, .busy_seconds = 16},
                            {.workers = 1, .task_seconds = 4, .busy_seconds = 4}}});
  Report({run.path()}, ReportFormat::kMarkdown);
  EXPECT_THAT(out_.str(), HasSubstr("| 0 | 20.0 s | 75.0 % | 5.0 % | 0.0 % | 0.0 % | 20.0 % |"));
  EXPECT_THAT(out_.str(), HasSubstr("| 1 | 10.0 s | 40.0 % |"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("The seconds that each stage")));
}

TEST_F(ReportCommandTest, RunsAreComparedBesideEachOther) {
  const RecordedRun first, second({.overrides = {"optimizer.learningRate=0.01"}});
  EXPECT_EQ(Report({first.path(), second.path()}), ExitCode::kOk);
  EXPECT_THAT(out_.str(), HasSubstr("2 runs compared"));
  EXPECT_THAT(out_.str(), HasSubstr("the same bits in 8 steps"));
  EXPECT_THAT(out_.str(), HasSubstr("optimizer.learningRate"));
  ExpectLoadsNothing(out_.str());
}

TEST_F(ReportCommandTest, LossesThatDifferAreNamedWithTheirFirstStep) {
  const RecordedRun first;
  RecordedRun second;
  second.Alter("steps.jsonl", 3, "\"loss\":3.", "\"loss\":4.");
  Report({first.path(), second.path()});
  EXPECT_THAT(out_.str(), HasSubstr("differ from step 2 on"));
}

TEST_F(ReportCommandTest, ARunThatHasCommittedNothingIsToldAsSuch) {
  const RecordedRun run({.steps = 0});
  EXPECT_EQ(Report({run.path()}), ExitCode::kOk) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("No step is committed yet"));
}

TEST_F(ReportCommandTest, ALineThatACrashHasCutOffIsLeftOut) {
  RecordedRun run;
  run.Append("steps.jsonl", R"({"step":8,"lo)");
  run.Append("ledger.jsonl", R"({"step":8,"gen)");
  EXPECT_EQ(Report({run.path()}), ExitCode::kOk) << err_.str();
}

TEST_F(ReportCommandTest, BadInputIsNamedWithItsPlaceAndWhatToDo) {
  const TemporaryFolder empty;
  EXPECT_EQ(Report({empty / "nowhere"}), ExitCode::kBadUsage);
  EXPECT_THAT(err_.str(), HasSubstr("nowhere: there is no such folder; give the --out folder"));
  EXPECT_EQ(Report({empty.path()}), ExitCode::kBadUsage);
  EXPECT_THAT(err_.str(), HasSubstr("it has no job.json; give the --out folder"));
  RecordedRun run;
  run.Alter("steps.jsonl", 3, "\"tokens\"", "\"token\"");
  EXPECT_EQ(Report({run.path()}), ExitCode::kBadUsage);
  EXPECT_THAT(err_.str(), HasSubstr("steps.jsonl, line 3: is damaged"));
  EXPECT_THAT(err_.str(), HasSubstr("restore the file"));
  run.Alter("job.json", 2, "\"", "");
  EXPECT_EQ(Report({run.path()}), ExitCode::kBadUsage);
  EXPECT_THAT(err_.str(), HasSubstr("job.json: is damaged"));
}

}  // namespace
}  // namespace swarm::ctl
