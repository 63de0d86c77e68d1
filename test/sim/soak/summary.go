package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report prints the summary, and writes it as JSON if requested.
func (s *soak) report(w io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.record()
	if len(r.Failures) == 0 {
		_ = os.Remove(s.o.artifacts) // removes the directory only if it is empty
	}
	return errors.Join(s.writeJSON(r), r.print(w))
}

// print writes the summary for people.
func (r record) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...any) {
		for _, c := range cells {
			_, _ = fmt.Fprintf(t, "%v\t", c) // Flush reports the error
		}
		_, _ = fmt.Fprintln(t)
	}
	head := func(cells ...any) { row(); row(cells...) }
	row("seeds", r.Seeds)
	for _, n := range slices.Sorted(maps.Keys(r.ByNodes)) {
		if n > 0 {
			row(fmt.Sprintf("with %d nodes", n), r.ByNodes[n])
		}
	}
	row("failed", len(r.Failures))
	row("virtual hours", hours(r.Virtual))
	row("wall hours", hours(r.Wall))
	row("CPU hours", hours(r.CPU))
	if r.Seeds > 0 {
		row("CPU seconds a seed", fmt.Sprintf("%.2f", r.CPU.Seconds()/float64(r.Seeds)))
	}
	for _, what := range slices.Sorted(maps.Keys(r.Counts)) {
		row(what, r.Counts[what])
	}
	head("fault", "injected", "hit")
	injected, hit := 0, 0
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		row(kind, r.Faults[kind], r.Hit[kind])
		injected, hit = injected+r.Faults[kind], hit+r.Hit[kind]
	}
	row("all", injected, hit)
	head("invariant", "put to the test")
	for _, name := range slices.Sorted(maps.Keys(r.Checked)) {
		row(name, r.Checked[name])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return r.printFailures(w)
}

func (r record) printFailures(w io.Writer) error {
	var b strings.Builder
	for _, f := range r.Failures {
		first, _, _ := strings.Cut(f.Text[0], "\n")
		fmt.Fprintf(&b, "\nseed %d: %s", f.Seed, first)
		if more := len(f.Text) - 1; more > 0 {
			fmt.Fprintf(&b, " (and %d more)", more)
		}
		if f.Artifacts != "" {
			fmt.Fprintf(&b, "\n  %s", f.Artifacts)
		}
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func hours(d time.Duration) string { return fmt.Sprintf("%.2f", d.Hours()) }
