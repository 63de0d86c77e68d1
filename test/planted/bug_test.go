package main

import (
	"os"
	"path/filepath"
	"slices"
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
		"no paragraph":     {"What it does,\nin two lines.\n\n", "\n"},
		"no origin":        {"from: K-05; O1\n", ""},
		"no invariant":     {"breaks: I7\n", ""},
		"no patch":         {"--- a/p.go", "-- a/p.go"},
		"no catcher":       {"catch: ./p ^TestB$\nsays: 1, want 2\ncatch: ./p ^TestB$ -test.short SEED=4,2\nsays: I7 violated\n", ""},
		"silent catcher":   {"says: 1, want 2\n", ""},
		"two words of one": {"says: 1, want 2\n", "says: 1\nsays: 2\n"},
		"no test":          {"catch: ./p ^TestB$\n", "catch: ./p\n"},
		"no package":       {"catch: ./p ^TestB$\n", "catch: p ^TestB$\n"},
		"two variables":    {"SEED=4,2", "SEED=4 SEEDS=2"},
		"bad expression":   {"says: 1, want 2", "says: (1"},
		"unknown line":     {"breaks: I7", "breaks: I7\nseed: 4"},
	} {
		text := strings.Replace(wellFormed, change[0], change[1], 1)
		if text == wellFormed {
			t.Fatalf("%s: nothing changed", name)
		}
		if b, err := parseBug(text); err == nil {
			t.Errorf("%s: got %+v, want an error", name, b)
		}
	}
}

// TestBugsApply shows, without building anything, that each bug still is a change of today's code.
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
