#include "io/locate_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/test_files.h"

namespace weft::io {
namespace {

using testing::HasSubstr;

constexpr const char* kHash = "7e27bd9f95328f0f3b08261d1252705110c806f8";

TEST(LocateModel, TakesPathsAsTheyAre) {
  TempDir dir;
  dir.Write("hf/config.json", "{}");
  const std::string gguf = dir.Write("g/m.gguf", "x");
  EXPECT_EQ(LocateModel(dir / "hf", "").value(), dir / "hf");
  EXPECT_EQ(LocateModel(gguf, "").value(), gguf);
  EXPECT_EQ(LocateModel(dir / "g", "").value(), gguf) << "a directory with one .gguf";
  dir.Write("g/n.gguf", "x");
  EXPECT_THAT(LocateModel(dir / "g", "").status().message(),
              HasSubstr("has 2 .gguf files (m.gguf, n.gguf, ...)"));
}

TEST(LocateModel, APartedGgufIsOneModel) {
  TempDir dir;
  const std::string first = dir.Write("m-00001-of-00002.gguf", "x");
  dir.Write("m-00002-of-00002.gguf", "x");
  EXPECT_EQ(LocateModel(dir.path(), "").value(), first);
}

TEST(LocateModel, FollowsTheCachesRefs) {
  TempDir cache;
  const std::string repository = "models--org--Some-Model_1.5";
  const std::string snapshot = repository + "/snapshots/" + kHash;
  cache.Write(snapshot + "/config.json", "{}");
  cache.Write(repository + "/refs/main", std::string(kHash) + "\n");
  EXPECT_EQ(LocateModel("org/Some-Model_1.5", cache.path()).value(), cache / snapshot);
  EXPECT_EQ(LocateModel("org/Some-Model_1.5", cache.path(), kHash).value(), cache / snapshot);
  EXPECT_THAT(LocateModel("org/Some-Model_1.5", cache.path(), "dev").status().message(),
              HasSubstr("not at revision 'dev' (tried " + (cache / repository) + "/refs/dev and "));
  cache.Write("models--gpt2/snapshots/abc/m.gguf", "x");
  cache.Write("models--gpt2/refs/main", "abc");
  EXPECT_THAT(LocateModel("gpt2", cache.path()).value(),
              testing::EndsWith("/snapshots/abc/m.gguf"));
}

TEST(LocateModel, SaysWhatWasTried) {
  TempDir dir;
  EXPECT_THAT(LocateModel("", "").status().message(), HasSubstr("--model is empty"));
  EXPECT_THAT(LocateModel("org/absent", dir.path()).status().message(),
              HasSubstr("--model org/absent: not found; tried the path itself and " +
                        (dir / "models--org--absent")));
  EXPECT_THAT(LocateModel("org/absent", "").status().message(),
              HasSubstr("there is no cache to look into"));
  EXPECT_THAT(LocateModel("a/b/c", dir.path()).status().message(),
              HasSubstr("no name of the form org/name"));
  EXPECT_THAT(LocateModel(dir.path(), "").status().message(),
              HasSubstr("neither config.json nor a .gguf file"));
  EXPECT_THAT(LocateModel(dir.Write("weights.bin", "x"), "").status().message(),
              HasSubstr("neither a directory nor a .gguf file"));
}

TEST(LocateModel, NeverLeavesTheCache) {
  TempDir dir;
  dir.Write("secret/config.json", "{}");
  dir.Write("cache/models--org--m/snapshots/abc/config.json", "{}");
  // A ref is content too: one that points out of snapshots/ is not followed.
  dir.Write("cache/models--org--m/refs/main", "../../../secret");
  const std::string cache = dir / "cache";
  EXPECT_FALSE(LocateModel("org/m", cache).ok());
  for (const std::string name : {"../secret",   "..",          ".",
                                 "org/..",      "../..",       "org/../secret",
                                 "/../secret",  "org//m",      "org/m/",
                                 "./m",         "org/.hidden", "-org/m",
                                 "org/m\n",     "org/m ",      "org\\m",
                                 "..%2fsecret", "~/x",         "$HOME",
                                 "org/m..x",    "org/m.",      "models--org--m/../../secret"}) {
    const Result<std::string> found = LocateModel(name, cache);
    EXPECT_FALSE(found.ok() && found.value().find("secret") != std::string::npos) << name;
    if (name != "." && name != ".." && name != "../..") {
      EXPECT_FALSE(found.ok()) << name << " gave " << found.value();
    }
  }
  for (const std::string revision : {"../abc", "..", "", "a/b", "a/../../../../secret"}) {
    EXPECT_EQ(LocateModel("org/m", cache, revision).status().code(), StatusCode::kInvalid)
        << revision;
  }
  EXPECT_EQ(LocateModel(std::string("org/m\0x", 7), cache).status().code(), StatusCode::kInvalid);
}

}  // namespace
}  // namespace weft::io
