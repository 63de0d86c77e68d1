package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"holdfast/test/sim/check"
)

// unshown are the rules that tests name and that no planted bug leaves out, with the reasons.
var unshown = map[string]string{
	"W8": "there is one feature level",
}

// TestEverythingIsShown checks that a bug shows each invariant, each rule that a test or a check of the simulation
// names, and each judge and kind of shows.go.
func TestEverythingIsShown(t *testing.T) {
	bugs, err := readBugs("bugs")
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]bool)
	for _, b := range bugs {
		// D1, D2, F1 and F2 are rules of two pages. Names of tests do not say of which.
		shown[strings.TrimPrefix(b.shows, "tree ")] = true
	}
	var want []string
	for i := 1; i <= 18; i++ {
		want = append(want, "I"+strconv.Itoa(i))
	}
	for _, judge := range judges {
		want = append(want, "judge: "+judge)
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		want = append(want, "kind: "+kind)
	}
	tested := testedRules(t)
	for _, rule := range rules(t) {
		if tested[rule] {
			want = append(want, rule)
		}
	}
	for _, one := range want {
		why, excused := unshown[one]
		switch {
		case !shown[one] && !excused:
			t.Errorf("no bug of bugs/ shows %s", one)
		case shown[one] && excused:
			t.Errorf("a bug shows %s: take it out of unshown (%s)", one, why)
		}
	}
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
		rule := strings.TrimPrefix(b.shows, "tree ")
		if numbered.MatchString(rule) && rule[0] != 'I' && !slices.Contains(known, rule) {
			t.Errorf("bugs/%s.patch shows %s: no such rule", b.name, b.shows)
		}
	}
}

// rules returns the numbers of the rules of all pages.
func rules(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, page := range []string{"protocol", "tree", "zookeeper"} {
		text, err := os.ReadFile("../../docs/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^- \*\*([A-Z][0-9]+)\*\*`).FindAllStringSubmatch(string(text), -1) {
			all = append(all, m[1])
		}
	}
	if len(all) < 100 {
		t.Fatalf("found %d rules in docs/, want at least 100", len(all))
	}
	return all
}

// testedRules returns the rules that the name of a test or of a check of the simulation begins with.
func testedRules(t *testing.T) map[string]bool {
	t.Helper()
	number := regexp.MustCompile(`^(?:Test)?([A-Z][0-9]+)(?:[A-Z]| |$)`)
	tested := make(map[string]bool)
	for _, name := range slices.Concat(testsOfTheModule(t), check.Names(), check.RareNames()) {
		if m := number.FindStringSubmatch(name); m != nil {
			tested[m[1]] = true
		}
	}
	return tested
}
