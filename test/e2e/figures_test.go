//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// figure is a measurement of a test. Its value is a number.
type figure struct {
	Test  string  `json:"test"`
	Name  string  `json:"figure"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// report collects the figures of all tests.
type report struct {
	mu      sync.Mutex
	figures []figure // guarded by mu
}

var results report

// count logs and keeps a number of things.
func count(t *testing.T, name, unit string, n int) {
	t.Helper()
	results.add(t, name, unit, float64(n))
}

// took logs and keeps a duration.
func took(t *testing.T, name string, d time.Duration) {
	t.Helper()
	results.add(t, name, "s", float64(d.Milliseconds())/1000)
}

func (r *report) add(t *testing.T, name, unit string, value float64) {
	t.Helper()
	f := figure{Test: strings.TrimPrefix(t.Name(), "Test"), Name: name, Value: value, Unit: unit}
	t.Logf("figure: %s %s %s", name, f.text(), unit)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.figures = append(r.figures, f)
}

func (f figure) text() string { return strconv.FormatFloat(f.Value, 'f', -1, 64) }

// write adds the figures to file.jsonl, a line for each figure, and writes all that stand there to file.md, a line for
// each test: a test that runs once more keeps the figures of the others. It does nothing for an empty name.
func (r *report) write(file string) error {
	if file == "" || len(r.figures) == 0 {
		return nil
	}
	base := strings.TrimSuffix(file, ".md")
	f, err := os.OpenFile(base+".jsonl", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	var all report
	for in := json.NewDecoder(f); in.More(); {
		var one figure
		if err := in.Decode(&one); err != nil {
			return err
		}
		all.figures = append(all.figures, one)
	}
	out := json.NewEncoder(f)
	for _, one := range r.figures {
		if err := out.Encode(one); err != nil {
			return err
		}
	}
	all.figures = append(all.figures, r.figures...)
	return os.WriteFile(base+".md", []byte(all.table()), 0o600)
}

// columns are the figures that most tests have. All others go into the last column.
var columns = []string{
	"sessions", "promises", "moves", "lapses", "expired", "broken", "leads", "first served",
	"all served",
}

// table returns the figures as a Markdown table.
func (r *report) table() string {
	var tests []string
	cells := make(map[string]map[string]string)
	for _, f := range r.figures {
		if cells[f.Test] == nil {
			tests, cells[f.Test] = append(tests, f.Test), make(map[string]string)
		}
		row := cells[f.Test]
		switch text := strings.TrimSpace(f.text() + " " + f.Unit); {
		case slices.Contains(columns, f.Name):
			row[f.Name] = text
		case row[""] != "":
			row[""] += ", " + f.Name + " " + text
		default:
			row[""] = f.Name + " " + text
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "| test | %s | fault |\n|---|%s---|\n", strings.Join(columns, " | "),
		strings.Repeat("---:|", len(columns)))
	for _, test := range tests {
		fmt.Fprintf(&out, "| %s ", test)
		for _, name := range columns {
			fmt.Fprintf(&out, "| %s ", cells[test][name])
		}
		fmt.Fprintf(&out, "| %s |\n", cells[test][""])
	}
	return out.String()
}
