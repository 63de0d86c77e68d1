package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unshown are the rules that no planted bug leaves out, with the reasons: the tests beside the code that assert them.
var unshown = map[string]string{
	"B2": "TestAnswersAreJoined and TestAStateIsMadeOnceAMessage",
	"B3": "TestBatches and TestBatchesAreBounded; TestAnotherPeerFormat for the number",
	"Q2": "TestDrainIsRefused and TestDrain",
	"Q3": "TestDrain; nothing asserts that clients are told DRAINING_ENDED",
	"D4": "TestModel and TestPlain count children in the same way; nothing asserts the bound of ten digits",
	"D6": "TestI6DigestCoversEverything and TestGoldenSnapshotWithATree; nothing asserts the counts of quotas",
	"P3": "TestQuotaRefusals and TestPlain; a bug shows I16 to the model",
	"V7": "a permission; TestHistories asserts that a lane ends what it has passed",
	"W5": "names R7, which has a bug",
	"Z6": "TestNothingWaitsForASessionThatHasLeft and TestARefusalThatPassesIsNoAnswer",
	"D1": "TestModel: the tree is as a plain one, and a frozen root stays as it was",
	"D2": "TestU1U3; nothing asserts what happens behind the last position",
}

// TestEverythingIsShown checks that a bug shows each invariant, each rule of the documents that is not in unshown, and
// each judge and kind of shows.go.
func TestEverythingIsShown(t *testing.T) {
	bugs, err := readBugs("bugs")
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]bool)
	for _, b := range bugs {
		shown[b.shows] = true
	}
	want := rules(t)
	for i := 1; i <= 18; i++ {
		want = append(want, "I"+strconv.Itoa(i))
	}
	for _, judge := range judges {
		want = append(want, "judge: "+judge)
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		want = append(want, "kind: "+kind)
	}
	for _, one := range want {
		why, excused := unshown[one]
		switch {
		case !shown[one] && !excused:
			t.Errorf("no bug of bugs/ shows %s, and unshown has no reason", one)
		case shown[one] && excused:
			t.Errorf("a bug shows %s: take it out of unshown (%s)", one, why)
		}
	}
}

// TestReasonsNameWhatThereIs checks that unshown is about rules of the documents and names tests that exist.
func TestReasonsNameWhatThereIs(t *testing.T) {
	known, tests := rules(t), testsOfTheModule(t)
	for rule, why := range unshown {
		if !slices.Contains(known, rule) {
			t.Errorf("unshown has %s: no such rule", rule)
		}
		for _, name := range regexp.MustCompile(`\bTest\w+`).FindAllString(why, -1) {
			if !slices.Contains(tests, name) {
				t.Errorf("unshown names %s for %s: no such test", name, rule)
			}
		}
	}
}

// layer returns the layer of tests that a package belongs to. Two bugs may show the same thing to two layers.
func layer(pkg string) string {
	for _, l := range []struct{ prefix, name string }{
		{"./test/sim", "simulation"},
		{"./test/model", "model"},
		{"./test/raft", "raft"},
		{"./test/whole", "whole nodes"},
		{"./bench", "benchmark"},
	} {
		if pkg == l.prefix || strings.HasPrefix(pkg, l.prefix+"/") {
			return l.name
		}
	}
	return "rule test"
}

// TestNothingIsShownTwice checks that two bugs show the same thing to different layers of tests only.
func TestNothingIsShownTwice(t *testing.T) {
	bugs, err := readBugs("bugs")
	if err != nil {
		t.Fatal(err)
	}
	by := make(map[[2]string]string)
	for _, b := range bugs {
		key := [2]string{b.shows, layer(b.catcher.pkg)}
		if other, twice := by[key]; twice {
			t.Errorf("%s and %s both show %s to the layer %q", other, b.name, key[0], key[1])
		}
		by[key] = b.name
	}
}

// TestBugsShowWhatThereIs checks that each rule that a bug shows is on a page of rules.
func TestBugsShowWhatThereIs(t *testing.T) {
	bugs, err := readBugs("bugs")
	if err != nil {
		t.Fatal(err)
	}
	known := rules(t)
	for _, b := range bugs {
		if numbered.MatchString(b.shows) && b.shows[0] != 'I' && !slices.Contains(known, b.shows) {
			t.Errorf("bugs/%s.patch shows %s: no such rule", b.name, b.shows)
		}
	}
}

// rules returns the rules of all pages. A number names one rule: it must not appear on two pages.
func rules(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, page := range []string{"protocol", "tree", "zookeeper"} {
		text, err := os.ReadFile("../../docs/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^- \*\*([A-Z][0-9]+)\*\*`).FindAllStringSubmatch(string(text), -1) {
			rule := m[1]
			if slices.Contains(all, rule) {
				t.Errorf("docs/%s.md: %s is on a page of rules already", page, rule)
			}
			all = append(all, rule)
		}
	}
	if len(all) < 100 {
		t.Fatalf("found %d rules in docs/, want at least 100", len(all))
	}
	return all
}
