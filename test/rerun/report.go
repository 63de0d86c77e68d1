package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"holdfast/test/timeout"
)

// test names a test that is no part of another.
type test struct{ pkg, name string }

func (t test) String() string { return t.pkg + " " + t.name }

// result is what became of a test.
type result struct {
	out      strings.Builder
	seconds  float64
	timedOut bool
	failed   bool
	ended    bool
}

// report reads the events of "go test -json" and prints them: what belongs to no test at once, the output of a test when
// it has ended, if it failed or if everything is wanted.
type report struct {
	out     io.Writer
	verbose bool
	rest    []byte
	order   []test
	results map[test]*result
	failed  bool
}

func newReport(out io.Writer, verbose bool) *report {
	return &report{out: out, verbose: verbose, results: map[test]*result{}}
}

// event is an event of "go doc cmd/test2json", or of a build.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// Write takes a part of the events.
func (r *report) Write(p []byte) (int, error) {
	r.rest = append(r.rest, p...)
	for {
		line, rest, whole := bytes.Cut(r.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		r.line(line)
		r.rest = rest
	}
}

func (r *report) line(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		_, _ = fmt.Fprintf(r.out, "%s\n", line)
		return
	}
	r.mark(e)
	if e.Test == "" {
		r.failed = r.failed || e.Action == "fail" || e.Action == "build-fail"
		if e.Action == "fail" {
			r.unfinished(e.Package)
		}
		if e.Output != "PASS\n" {
			_, _ = fmt.Fprint(r.out, e.Output)
		}
		return
	}
	name, _, part := strings.Cut(e.Test, "/")
	t := test{e.Package, name}
	of := r.results[t]
	if of == nil {
		of = &result{}
		r.results[t], r.order = of, append(r.order, t)
	}
	if !strings.HasPrefix(e.Output, "=== ") {
		of.out.WriteString(e.Output)
	}
	switch e.Action {
	case "fail", "pass", "skip":
		of.failed = of.failed || e.Action == "fail"
		if !part {
			of.seconds, of.ended = e.Elapsed, true
			r.show(of)
		}
	}
}

// mark notes the test whose line says that it timed out: "go test -json" may attribute the line to another test.
func (r *report) mark(e event) {
	_, marked, found := strings.Cut(e.Output, timeout.Mark)
	name, _, named := strings.Cut(marked, ": ")
	if !found || !named {
		return
	}
	name, _, _ = strings.Cut(name, "/")
	if of := r.results[test{e.Package, name}]; of != nil {
		of.timedOut = true
	}
}

func (r *report) show(of *result) {
	if r.verbose || of.failed || of.timedOut {
		_, _ = fmt.Fprint(r.out, of.out.String())
	}
}

// unfinished shows the tests of a package that ended without them, such as by a panic.
func (r *report) unfinished(pkg string) {
	for _, t := range r.order {
		if of := r.results[t]; t.pkg == pkg && !of.ended {
			of.failed, of.ended = true, true
			r.show(of)
		}
	}
}

// end prints the last line if it is incomplete.
func (r *report) end() {
	if len(r.rest) > 0 {
		r.line(r.rest)
		r.rest = nil
	}
}

// timedOut returns the tests that timed out and that no judge failed.
func (r *report) timedOut() []test {
	return slices.DeleteFunc(slices.Clone(r.order), func(t test) bool {
		of := r.results[t]
		return !of.timedOut || of.failed
	})
}

func (r *report) passed(t test) bool {
	of := r.results[t]
	return of != nil && of.ended && !of.failed
}

func (r *report) output(t test) string { return r.results[t].out.String() }

// timings has a line for each test.
func (r *report) timings() string {
	var lines strings.Builder
	for _, t := range r.order {
		fmt.Fprintf(&lines, "%.2f %s\n", r.results[t].seconds, t)
	}
	return lines.String()
}
