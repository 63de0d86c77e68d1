package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// module is a small module with one function and a test of it.
func module(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module planted.test\n\ngo 1.26\n",
		"p/p.go": "package p\n\nfunc One() int {\n\treturn 1\n}\n",
		"p/before.go": "package p\n\nimport \"os\"\n\nfunc before(file string) bool {\n\t_, err := os.Stat(file)\n" +
			"\t_ = os.WriteFile(file, nil, 0o600)\n\treturn err == nil\n}\n",
		"p/p_test.go": "package p\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n" +
			"func TestOne(t *testing.T) {\n\tif got := One(); got != 1 && os.Getenv(\"LOOK\") != \"no\" {\n" +
			"\t\tt.Errorf(\"got %d, want 1\", got)\n\t}\n}\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// plant runs bugs and returns what the runner prints. Each bug is given by the line that replaces "return 1" or
// "return 7", its catcher, and the message that the catcher must print.
func plant(t *testing.T, root string, bugs map[string][4]string) (string, error) {
	t.Helper()
	var all []bug
	for name, b := range bugs {
		parsed, err := parseBug("What.\n\nshows: I1\ncatch: ./p " + b[2] + "\nsays: " + b[3] +
			"\n--- a/p/p.go\n+++ b/p/p.go\n@@ -4 +4 @@\n-\t" + b[0] + "\n+\t" + b[1] + "\n")
		if err != nil {
			t.Fatal(err)
		}
		parsed.name = name
		all = append(all, parsed)
	}
	var out bytes.Buffer
	r := &runner{lab: &lab{root: root, scratch: t.TempDir(), limit: time.Minute}, out: &out, workers: 2, times: 1}
	err := r.run(t.Context(), all)
	return out.String(), err
}

func TestCaught(t *testing.T) {
	out, err := plant(t, module(t), map[string][4]string{
		"at once":         {"return 1", "return 2", "^TestOne$", "got 2, want 1"},
		"at second sight": {"return 1", "return 2", "^TestOne$ LOOK=no,yes", "got 2, want 1"},
		"by its panic":    {"return 1", `panic("got 2")`, "^TestOne$", "panic: got 2"},
	})
	if err != nil || !strings.Contains(out, "all 3 bugs are caught") {
		t.Errorf("got error %v, printed:\n%s", err, out)
	}
}

// TestRetryAfterAPass shows that a catcher that passed runs again, and that the output says so.
func TestRetryAfterAPass(t *testing.T) {
	later := fmt.Sprintf("if before(%q) { return 2 }; return 1", filepath.Join(t.TempDir(), "seen"))
	out, err := plant(t, module(t), map[string][4]string{"shy": {"return 1", later, "^TestOne$", "got 2, want 1"}})
	if err != nil || !strings.Contains(out, "*** shy: ./p TestOne: uncaught: the test passes; once more\n") {
		t.Errorf("got error %v, printed:\n%s", err, out)
	}
}

// TestRetryAfterAnotherMessage shows that a catcher that failed for another reason runs again. The output has that
// failure.
func TestRetryAfterAnotherMessage(t *testing.T) {
	later := fmt.Sprintf("if before(%q) { return 2 }; return 3", filepath.Join(t.TempDir(), "seen"))
	out, err := plant(t, module(t), map[string][4]string{"slow": {"return 1", later, "^TestOne$", "got 2, want 1"}})
	if err != nil || !strings.Contains(out, "got 3, want 1") || !strings.Contains(out, "all 1 bugs are caught") {
		t.Errorf("got error %v, printed:\n%s", err, out)
	}
}

// TestTail shows that the report of a failed test is kept, however much its log says afterwards.
func TestTail(t *testing.T) {
	output := "=== RUN\n    x_test.go:7: got 3, want 1\n" + strings.Repeat("        00:00 [INFO] log\n", 100) + "FAIL\n"
	got := strings.Split(tail(output), "\n")
	if len(got) != 31 || got[0] != "    x_test.go:7: got 3, want 1" || got[30] != "FAIL" {
		t.Errorf("got %d lines: %q", len(got), got)
	}
}

// TestUncaught shows that only a test that fails with the expected message counts as a catch.
func TestUncaught(t *testing.T) {
	bugs := map[string][4]string{
		"passes":          {"return 1", "return 3 - 2", "^TestOne$", "got 2, want 1"},
		"never-looks":     {"return 1", "return 2", "^TestOne$ LOOK=no", "got 2, want 1"},
		"fails-otherwise": {"return 1", "return 3", "^TestOne$", "got 2, want 1"},
		"panics":          {"return 1", `println("got 2, want 1"); panic("oh")`, "^TestOne$", "got 2, want 1"},
		"does-not-build":  {"return 1", "return two", "^TestOne$", "got 2, want 1"},
		"does-not-apply":  {"return 7", "return 2", "^TestOne$", "got 2, want 1"},
		"no-such-test":    {"return 1", "return 2", "^TestTwo$", "got 2, want 1"},
	}
	out, err := plant(t, module(t), bugs)
	if err == nil {
		t.Fatalf("got no error, printed:\n%s", out)
	}
	for name := range bugs {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
	for _, want := range []string{
		"uncaught", "no line of its output matches", "undefined: two", "no such test", "bugs/does-not-apply.patch does not apply:",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}
