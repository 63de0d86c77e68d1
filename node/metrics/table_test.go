package metrics

import (
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/transport/authz"
	"holdfast/transport/ratelimit"
)

const (
	page     = "../../docs/metrics.md"
	runbooks = "../../docs/operations/runbooks.md"
	begin    = "<!-- metrics: begin, written by go test ./node/metrics -run TestMetricsInDocuments -update -->\n"
	end      = "<!-- metrics: end -->"
)

var update = flag.Bool("update", false, "write the table of metrics into the document")

// The page for operators shows the metrics as they are.
func TestMetricsInDocuments(t *testing.T) {
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begin)
	table, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Fatalf("%s: no table of metrics between\n%s%s", page, begin, end)
	case table == Reference():
	case !*update:
		t.Errorf("%s: the table of metrics is old: run this test with -update", page)
	default:
		if err := os.WriteFile(page, []byte(before+begin+Reference()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Every metric that a page names exists. Those of the recipes are the client's.
func TestDocumentsNameMetrics(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*/*.md")
	more, err2 := filepath.Glob("../../docs/*.md")
	if err = cmp.Or(err, err2); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	name := regexp.MustCompile(`\bholdfast_[a-z0-9_]+`)
	for _, one := range name.FindAllString(Reference(), -1) {
		known[one] = true
	}
	named := 0
	for _, page := range append(pages, more...) {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range name.FindAllString(string(b), -1) {
			if named++; !known[one] && !strings.HasPrefix(one, "holdfast_recipe_") {
				t.Errorf("%s names %s: no such metric", page, one)
			}
		}
	}
	if named < 100 {
		t.Errorf("found %d names: this test does not see them", named)
	}
}

// fakeAudit counts the same for all actions and outcomes.
type fakeAudit struct{ count, omitted uint64 }

func (a fakeAudit) Count(string, authz.Outcome) uint64 { return a.count }
func (a fakeAudit) Omitted(authz.Outcome) uint64       { return a.omitted }

// gathered returns the values of the table by name and labels, for a snapshot.
func gathered(t *testing.T, s *Snapshot) map[string]float64 {
	t.Helper()
	if s.Audit == nil {
		s.Audit = fakeAudit{}
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newCollector(func() *Snapshot { return s }))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), prefix)
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

// The table has each name once, a help text for each, and exposes one value for each series.
func TestTable(t *testing.T) {
	names := make(map[string]bool)
	series := 0
	for _, m := range table() {
		if names[m.name] {
			t.Errorf("%s is there twice", m.name)
		}
		names[m.name] = true
		series += len(m.series)
		if m.help == "" || len(m.series) == 0 {
			t.Errorf("%s: help %q, %d series", m.name, m.help, len(m.series))
		}
	}
	for _, h := range histograms() {
		if names[h.name] || h.help == "" || len(h.buckets) == 0 {
			t.Errorf("%s: there already, or help %q, or %d buckets", h.name, h.help, len(h.buckets))
		}
	}
	if all := gathered(t, &Snapshot{}); len(all) != series {
		t.Errorf("%d series are exposed, want %d", len(all), series)
	}
}

// The text of an alert names only runbooks that there are.
func TestAlertsNameRunbooks(t *testing.T) {
	b, err := os.ReadFile(runbooks)
	if err != nil {
		t.Fatal(err)
	}
	runbook, found := regexp.MustCompile(`runbook (\w+)`), 0
	for _, m := range table() {
		for _, name := range runbook.FindAllStringSubmatch(m.alert, -1) {
			found++
			if !regexp.MustCompile(`(?m)^## ` + name[1] + `$`).Match(b) {
				t.Errorf("%s names the runbook %s, which %s does not have", m.name, name[1], runbooks)
			}
		}
	}
	if found == 0 {
		t.Error("no alert names a runbook")
	}
}

// Each refusal of the rate limits is counted for its kind and for the limit that was used up.
func TestMetricsOfTheRateLimits(t *testing.T) {
	s := &Snapshot{}
	want, next := make(map[string]float64), uint64(0)
	for k := range ratelimit.Kinds {
		for scope := range ratelimit.Scopes {
			next++
			s.Client.Refusals[k][scope] = next
			if limit := ratelimit.LimitName(k, scope); limit != "" {
				want["client_"+k.String()+"_refused_total "+limit] = float64(next)
			}
		}
	}
	got := gathered(t, s)
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %v, want %v", name, got[name], value)
		}
	}
}

// The limit of memory is shown for its source alone.
func TestMetricsOfTheMemoryLimit(t *testing.T) {
	for _, by := range MemoryLimitSources() {
		got := gathered(t, &Snapshot{Resources: Resources{MemoryLimit: 7, MemoryLimitBy: by}})
		for _, other := range MemoryLimitSources() {
			want := 0.0
			if other == by {
				want = 7
			}
			if got["memory_limit_bytes "+other] != want {
				t.Errorf("limited by %s: the limit by %s is %v", by, other, got["memory_limit_bytes "+other])
			}
		}
	}
}
