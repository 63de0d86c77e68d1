package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/test/timeout"
)

// TestOutcomes runs the tests of testdata/outcomes, each of which ends in its own way.
func TestOutcomes(t *testing.T) {
	t.Setenv(timeout.Variable, "1") // make test runs this test under rerun, too
	for _, tt := range []struct {
		name  string
		tests string
		ok    bool
		runs  int
		says  []string
	}{
		{"passed", "TestPasses", true, 1, []string{"ok "}},
		{"a failed judge", "TestJudge", false, 1, []string{"two holders"}},
		{"timed out, then passed", "TestTimesOutOnce", true, 2, []string{"FLAKY ", "TestTimesOutOnce: it timed out", "the page: not within"}},
		{"timed out in a part of a test", "TestPart", true, 2, []string{"FLAKY "}},
		{"timed out twice", "TestTimesOut", false, 2, []string{"FAIL ", "timed out, then failed when it ran alone"}},
		{"a deadline of a context", "TestDeadline", false, 2, []string{"timed out, then failed"}},
		{"a judge that fails in the clean-up after a timeout", "TestTimesOutAndJudge", false, 1, []string{"a lost write"}},
		{"a panic", "TestPanics", false, 1, []string{"out of range"}},
		{"a process that ends", "TestExits", false, 1, []string{"FAIL"}},
		{"a package that does not build", "", false, 1, []string{"undefined: nothing"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var out strings.Builder
			runs := 0
			s := season{
				out: &out, timings: filepath.Join(dir, "timings"), flaky: filepath.Join(dir, "flaky"),
				run: func(ctx context.Context, env []string, out io.Writer, args []string) error {
					runs++
					return goTest("")(ctx, append(env, "ONCE="+filepath.Join(dir, "once")), out, args)
				},
			}
			pkg := "./testdata/outcomes"
			if tt.tests == "" {
				pkg = "./testdata/broken"
			}
			ok, err := s.all(t.Context(), []string{"-run=^" + tt.tests + "$", pkg})
			if err != nil || ok != tt.ok || runs != tt.runs {
				t.Errorf("passed %v after %d runs, %v; want %v after %d; printed:\n%s", ok, runs, err, tt.ok, tt.runs, &out)
			}
			for _, want := range tt.says {
				if !strings.Contains(out.String(), want) {
					t.Errorf("want %q in:\n%s", want, &out)
				}
			}
			flaky, _ := os.ReadFile(s.flaky)
			if is := strings.HasPrefix(string(flaky), "FLAKY "); is != (tt.ok && tt.runs == 2) {
				t.Errorf("the file of flaky tests has %q", flaky)
			}
			timings, _ := os.ReadFile(s.timings)
			if tt.tests != "" && !strings.Contains(string(timings), tt.tests) {
				t.Errorf("the file of timings has %q", timings)
			}
		})
	}
}

func TestAGoThatDoesNotRunFails(t *testing.T) {
	s := season{out: io.Discard, run: func(context.Context, []string, io.Writer, []string) error { return errors.New("no go") }}
	if ok, err := s.all(t.Context(), nil); ok || err == nil {
		t.Errorf("got %v, %v", ok, err)
	}
}

func TestAloneKeepsTheFlags(t *testing.T) {
	got := alone([]string{"-tags=e2e", "-parallel=4", "-run=A|B", "./test/e2e/...", "-seeds=3"}, test{"holdfast/test/e2e", "TestA"})
	if want := "[-tags=e2e -count=1 -run=^TestA$ holdfast/test/e2e -seeds=3]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
