package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const wellFormed = `What it does,
in two lines.

from: K-05; O1
breaks: I7
catch: ./p ^TestB$
says: 1, want 2
catch: ./p ^TestB$ -test.short SEED=4,2
says: I7 violated
--- a/p.go
+++ b/p.go
@@ -1 +1 @@
-a
+b
`

func TestParseBug(t *testing.T) {
	b, err := parseBug(wellFormed)
	if err != nil {
		t.Fatal(err)
	}
	if b.what != "What it does, in two lines." || b.from != "K-05; O1" || b.breaks != "I7" || len(b.catchers) != 2 {
		t.Errorf("got %+v", b)
	}
	c := b.catchers[1]
	if c.pkg != "./p" || c.run != "^TestB$" || !slices.Equal(c.flags, []string{"-test.short"}) ||
		!slices.Equal(c.env, []string{"SEED=4", "SEED=2"}) || c.says.String() != "I7 violated" {
		t.Errorf("got %+v", c)
	}
	if got, want := c.String(), "./p TestB SEED=4,2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestParseBugRefuses(t *testing.T) {
	for name, change := range map[string][2]string{
		"no paragraph": {"What it does,\nin two lines.\n\n", "\n"},
		"no origin":    {"from: K-05; O1\n", ""},
		"no invariant": {"breaks: I7\n", ""},
		"no patch":     {"--- a/p.go", "-- a/p.go"},
		"no catcher": {
			"catch: ./p ^TestB$\nsays: 1, want 2\ncatch: ./p ^TestB$ -test.short SEED=4,2\nsays: I7 violated\n", "",
		},
		"silent catcher":   {"says: 1, want 2\n", ""},
		"two words of one": {"says: 1, want 2\n", "says: 1\nsays: 2\n"},
		"no test":          {"catch: ./p ^TestB$\n", "catch: ./p\n"},
		"no package":       {"catch: ./p ^TestB$\n", "catch: p ^TestB$\n"},
		"two variables":    {"SEED=4,2", "SEED=4 SEEDS=2"},
		"bad expression":   {"says: 1, want 2", "says: (1"},
		"unknown line":     {"breaks: I7", "breaks: I7\nseed: 4"},
		"seen and unseen":  {"catch: ./p ^TestB$\n", "unseen: 40 seeds: why\ncatch: ./test/sim ^TestB$\n"},
		"unseen how often": {"breaks: I7", "breaks: I7\nunseen: seeds: why"},
		"unseen, no why":   {"breaks: I7", "breaks: I7\nunseen: 40 seeds"},
	} {
		text := strings.Replace(wellFormed, change[0], change[1], 1)
		if text == wellFormed {
			t.Fatalf("%s: the case changes nothing in the file", name)
		}
		if b, err := parseBug(text); err == nil {
			t.Errorf("%s: got %+v, want an error", name, b)
		}
	}
}

// TestTableOfTheUnseen shows that each bug of the invariants is in one of the three lists, and that no other bug is.
func TestTableOfTheUnseen(t *testing.T) {
	lots := map[string]string{
		"cannot":  "breaks: I1\nunseen: 0 seeds: c\ncatch: ./p ^TestA$\nsays: a",
		"seen":    "breaks: I3, I4\ncatch: ./p ^TestA$\nsays: a\ncatch: ./test/sim ^TestSim$ SEED=1\nsays: b",
		"unseen":  "breaks: liveness\nunseen: 40 seeds: a | b\ncatch: ./p ^TestA$\nsays: a",
		"untried": "breaks: I8\ncatch: ./p ^TestA$\nsays: a",
		"other":   "breaks: E5\ncatch: ./p ^TestA$\nsays: a",
	}
	var bugs []bug
	for _, name := range []string{"cannot", "other", "seen", "unseen", "untried"} {
		b, err := parseBug("What.\n\nfrom: x\n" + lots[name] + "\n--- a/p.go\n+++ b/p.go\n@@ -1 +1 @@\n-a\n+b\n")
		if err != nil {
			t.Fatal(err)
		}
		b.name = name
		bugs = append(bugs, b)
	}
	got := unseen(bugs)
	for _, want := range []string{
		"Of 4 bugs that break I1 to I8, liveness or linearizability, it catches 1:",
		"\n| cannot | not run | c |\n| unseen | 1 to 40 | a \\| b |\n",
		"\nNot tried on enough seeds yet, 1: untried.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the table lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "other") {
		t.Errorf("the table has a bug that the simulation does not judge:\n%s", got)
	}
}

// TestBugsApply shows, without building anything, that each patch still applies to today's code.
func TestBugsApply(t *testing.T) {
	bugs, err := readBugs("bugs")
	if err != nil {
		t.Fatal(err)
	}
	const least = 80
	if len(bugs) < least {
		t.Errorf("%d bugs, want at least %d", len(bugs), least)
	}
	for _, b := range bugs {
		for _, c := range b.changes {
			text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(c.file)))
			if err != nil {
				t.Errorf("%s: %v", b.name, err)
				continue
			}
			if got, err := c.apply(string(text)); err != nil || got == string(text) {
				t.Errorf("bugs/%s.patch changes nothing: %v", b.name, err)
			}
		}
	}
}

func TestReadmeHasTheTable(t *testing.T) {
	bugs, err := readBugs("bugs")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := withTable(string(text), bugs)
	if err != nil || want != string(text) {
		t.Errorf("the table in README.md is not that of bugs/ (%v): go run ./test/planted -write", err)
	}
}

// TestChoose shows which catchers of which bugs the flags select.
func TestChoose(t *testing.T) {
	unit := catcher{pkg: "./p", run: "^TestA$", env: []string{""}}
	whole := catcher{pkg: simulation, run: "^TestSim$", env: []string{""}}
	bugs := []bug{{name: "one", catchers: []catcher{unit, unit, whole}}, {name: "two", catchers: []catcher{unit, whole}}}
	for name, test := range map[string]struct {
		choice
		want []string
	}{
		"the first":               {choice{simulate: "^$"}, []string{"one ./p", "two ./p"}},
		"one bug":                 {choice{bug: "two", simulate: "^$"}, []string{"two ./p"}},
		"the simulation for some": {choice{simulate: "^one$"}, []string{"one ./p", "one ./test/sim", "two ./p"}},
		"a catcher": {
			choice{catcher: "test/sim", simulate: "^$"}, []string{"one ./test/sim", "two ./test/sim"},
		},
		"all": {
			choice{simulate: "^$", all: true},
			[]string{"one ./p", "one ./p", "one ./test/sim", "two ./p", "two ./test/sim"},
		},
	} {
		chosen, err := choose(bugs, test.choice)
		var got []string
		for _, b := range chosen {
			for _, c := range b.catchers {
				got = append(got, b.name+" "+c.pkg)
			}
		}
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, test.want)
		}
	}
	if _, err := choose(bugs, choice{bug: "three"}); err == nil {
		t.Error("no error for a bug that does not exist")
	}
}

func TestShares(t *testing.T) {
	bugs := make([]bug, 10)
	for i := range bugs {
		bugs[i].name = strconv.Itoa(i)
	}
	var all []string
	for k := 41; k < 44; k++ {
		part, err := shareOf(bugs, fmt.Sprint(k, "/3"))
		if err != nil || len(part) < 3 {
			t.Fatalf("share %d: %d bugs, %v", k, len(part), err)
		}
		for _, b := range part {
			all = append(all, b.name)
		}
	}
	slices.Sort(all)
	if got := strings.Join(all, ""); got != "0123456789" {
		t.Errorf("three shares in a row have %s", got)
	}
	for _, share := range []string{"", "1", "1/0", "x/3", "-1/3", "1/3/3", "11/12"} {
		if part, err := shareOf(bugs, share); err == nil {
			t.Errorf("share %q: %d bugs, and no error", share, len(part))
		}
	}
}
