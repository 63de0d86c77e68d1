package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const wellFormed = `What it does,
in two lines.

shows: I7
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
	c := b.catcher
	if b.what != "What it does, in two lines." || b.shows != "I7" || c.pkg != "./p" || c.run != "^TestB$" ||
		!slices.Equal(c.flags, []string{"-test.short"}) || !slices.Equal(c.env, []string{"SEED=4", "SEED=2"}) ||
		c.says.String() != "I7 violated" {
		t.Errorf("got %+v", b)
	}
	if got, want := c.String(), "./p TestB SEED=4,2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestParseBugRefuses(t *testing.T) {
	for name, change := range map[string][2]string{
		"no paragraph":   {"What it does,\nin two lines.\n\n", "\n"},
		"shows nothing":  {"shows: I7\n", ""},
		"unknown kind":   {"shows: I7\n", "shows: kind: others\n"},
		"unknown judge":  {"shows: I7\n", "shows: judge: others\n"},
		"two rules":      {"shows: I7\n", "shows: I7, M1\n"},
		"two lines":      {"shows: I7\n", "shows: I7\nshows: M1\n"},
		"no patch":       {"--- a/p.go", "-- a/p.go"},
		"no catcher":     {"catch: ./p ^TestB$ -test.short SEED=4,2\n", ""},
		"silent catcher": {"says: I7 violated\n", ""},
		"no test":        {"./p ^TestB$ -test.short SEED=4,2\n", "./p\n"},
		"no package":     {"catch: ./p", "catch: p"},
		"two variables":  {"SEED=4,2", "SEED=4 SEEDS=2"},
		"bad expression": {"says: I7 violated", "says: (1"},
		"unknown line":   {"shows: I7\n", "shows: I7\nseed: 4\n"},
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

// TestCatchersExist shows, without building anything, that the package of each catcher has such a test.
func TestCatchersExist(t *testing.T) {
	bugs, err := readBugs("bugs")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bugs {
		name, _, _ := strings.Cut(b.catcher.run, "/")
		tests, err := testsBelow(filepath.Join("..", "..", filepath.FromSlash(b.catcher.pkg)))
		if err != nil || !slices.ContainsFunc(tests, regexp.MustCompile(name).MatchString) {
			t.Errorf("bugs/%s.patch: no test %s in %s (%v)", b.name, name, b.catcher.pkg, err)
		}
	}
}

func TestTheListHasTheBugs(t *testing.T) {
	bugs, err := readBugs("bugs")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("bugs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := withTable(string(text), bugs)
	if err != nil || want != string(text) {
		t.Errorf("the table in bugs/README.md is not that of bugs/ (%v): go run ./test/planted -write", err)
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
