package main

import (
	"strings"
	"testing"
)

const source = "package p\n\nfunc a() int {\n\treturn 1\n}\n\nfunc b() int {\n\treturn 1\n}\n"

func diff(lines ...string) []string { return append([]string{"--- a/p.go", "+++ b/p.go"}, lines...) }

func TestPatchApplies(t *testing.T) {
	changes, err := parsePatch(diff(
		"@@ -700,3 +1,2 @@ the line numbers are of another day", " func b() int {", "-\treturn 1", " }",
		"@@ -1,3 +1,4 @@", " package p", "", "+// A is new.", " func a() int {",
	))
	if err != nil {
		t.Fatal(err)
	}
	got, err := changes[0].apply(source)
	want := "package p\n\n// A is new.\nfunc a() int {\n\treturn 1\n}\n\nfunc b() int {\n}\n"
	if err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// TestPatchIsStrict shows that a patch applies exactly to the lines it was made for, or not at all.
func TestPatchIsStrict(t *testing.T) {
	for name, hunk := range map[string][]string{
		"a line that is kept differs":      {"@@ -1,3 +1,2 @@", " func b() int64 {", "-\treturn 1", " }"},
		"a line that is taken out differs": {"@@ -1,3 +1,2 @@", " func b() int {", "-\treturn 2", " }"},
		"two places":                       {"@@ -1,2 +1,1 @@", "-\treturn 1", " }"},
		"any place":                        {"@@ -0,0 +1,1 @@", "+\treturn 1"},
	} {
		changes, err := parsePatch(diff(hunk...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := changes[0].apply(source); err == nil || !strings.Contains(err.Error(), "p.go") {
			t.Errorf("%s: got %q, %v, want an error that names the file", name, got, err)
		}
	}
}

func TestPatchesThatAreNone(t *testing.T) {
	for name, lines := range map[string][]string{
		"empty":           {},
		"another file":    {"--- a/p.go", "+++ b/q.go", "@@ -1 +1 @@", "-a", "+b"},
		"no hunk":         diff(),
		"cut short":       diff("@@ -1,3 +1,2 @@", " func b() int {", "-\treturn 1"),
		"too long a side": diff("@@ -1,1 +1,2 @@", "-a", "-b", "+c", "+d"),
		"no sign":         diff("@@ -1,1 +1,1 @@", "a", "+b"),
		"more after it":   diff("@@ -1 +1 @@", "-a", "+b", "+c"),
		"a bad head":      diff("@@ -1,x +1 @@", "-a", "+b"),
	} {
		if changes, err := parsePatch(lines); err == nil {
			t.Errorf("%s: got %+v, want an error", name, changes)
		}
	}
}
