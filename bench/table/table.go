// Package table sums up the runs of a benchmark, for people and for programs.
package table

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"holdfast/bench/play"
)

// Results are the figures of all runs.
type Results struct {
	Begun time.Time `json:"begun"`
	// Machine and Scale say under which conditions.
	Machine string  `json:"machine"`
	Scale   float64 `json:"scale"`
	// Systems are the columns, in order.
	Systems []string `json:"systems"`
	// Runs are the figures of each play, in the order of the plays.
	Runs []Run `json:"runs"`
}

// Run is one play of one work with one system.
type Run struct {
	Work    string             `json:"work"`
	System  string             `json:"system"`
	Number  int                `json:"run"`
	Figures map[string]float64 `json:"figures,omitempty"`
	// Err says why there are no figures.
	Err string `json:"error,omitempty"`
}

// Join puts results beside each other: a column for each system of each. The first keeps its columns' names, the others
// get their number behind them.
func Join(all []*Results) *Results {
	joined := &Results{}
	for i, r := range all {
		rename := func(system string) string {
			if i == 0 {
				return system
			}
			return fmt.Sprintf("%s (%d)", system, i+1)
		}
		for _, system := range r.Systems {
			joined.Systems = append(joined.Systems, rename(system))
		}
		for _, run := range r.Runs {
			run.System = rename(run.System)
			joined.Runs = append(joined.Runs, run)
		}
	}
	return joined
}

// values are the figures of one key and system.
func (r *Results) values(key, system string) []float64 {
	var all []float64
	for _, run := range r.Runs {
		if v, ok := run.Figures[key]; ok && run.System == system {
			all = append(all, v)
		}
	}
	slices.Sort(all)
	return all
}

// failed counts the plays of a work that ended with an error.
func (r *Results) failed(work, system string) (count int) {
	for _, run := range r.Runs {
		if run.Work == work && run.System == system && run.Err != "" {
			count++
		}
	}
	return count
}

// Median returns the median of sorted values.
func Median(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// Markdown writes a table: a row for each figure, a column for each system, in each cell the median of the runs, and
// the least and the most behind it.
func (r *Results) Markdown(to io.Writer, works []play.Work) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| work | %s |\n|---|%s\n", strings.Join(r.Systems, " | "), strings.Repeat("---|", len(r.Systems)))
	for _, w := range works {
		for _, f := range w.Figures {
			cells := make([]string, len(r.Systems))
			for i, system := range r.Systems {
				cells[i] = cell(r.values(f.Key, system), r.failed(w.Name, system), f.Unit)
			}
			fmt.Fprintf(&b, "| %s | %s |\n", f.Title, strings.Join(cells, " | "))
		}
	}
	_, err := io.WriteString(to, b.String())
	return err
}

func cell(sorted []float64, failed int, unit play.Unit) string {
	var parts []string
	switch n := len(sorted); {
	case n > 1:
		parts = append(parts, fmt.Sprintf("%s (%s to %s)", Format(Median(sorted), unit), Format(sorted[0], unit),
			Format(sorted[n-1], unit)))
	case n == 1:
		parts = append(parts, Format(sorted[0], unit))
	case failed == 0:
		return "-"
	}
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", failed))
	}
	return strings.Join(parts, ", ")
}

// Format writes a figure with its unit and three digits.
func Format(v float64, unit play.Unit) string {
	switch unit {
	case play.Seconds:
		switch {
		case v >= 1:
			return digits(v) + " s"
		case v >= 1e-3:
			return digits(v*1e3) + " ms"
		default:
			return digits(v*1e6) + " us"
		}
	case play.PerSecond:
		if v >= 1e3 {
			return digits(v/1e3) + " k/s"
		}
		return digits(v) + "/s"
	case play.Percent:
		return digits(v) + " %"
	case play.Bytes:
		if math.Abs(v) >= 1e3 {
			return digits(v/1e3) + " KB"
		}
		return digits(v) + " B"
	case play.Count:
		return digits(v)
	}
	return digits(v)
}

// digits writes a number with three digits, or more if it has more before the point.
func digits(v float64) string {
	if v == 0 {
		return "0"
	}
	before := int(math.Floor(math.Log10(math.Abs(v)))) + 1
	return fmt.Sprintf("%.*f", min(3, max(0, 3-before)), v)
}
