package deploy

import (
	"encoding/json"
	"log/slog" //nolint:depguard // rulefmt wants one
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	alertsFile    = "../../deploy/prometheus/alerts.yaml"
	dashboardFile = "../../deploy/grafana/holdfast.json"
	metricsPage   = "../../docs/metrics.md"
	runbooks      = "docs/operations/runbooks.md"
)

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// exposed returns the series of a node and their labels, as the table of docs/metrics.md has them. A test of node
// holds that table against what a node exposes.
func exposed(t *testing.T) map[string][]string {
	t.Helper()
	rows := regexp.MustCompile("(?m)^\\| `(holdfast_\\w+)`([^|]*) \\| (\\w+) \\|").
		FindAllStringSubmatch(read(t, metricsPage), -1)
	label := regexp.MustCompile("`(action|limit|member|outcome|port|reason|source)`")
	if len(rows) < 50 {
		t.Fatalf("%s has %d metrics: the table has another form than this test reads", metricsPage, len(rows))
	}
	all := map[string][]string{"up": nil, "process_resident_memory_bytes": nil, "process_cpu_seconds_total": nil}
	for _, r := range rows {
		labels := []string{"instance", "job"}
		for _, l := range label.FindAllStringSubmatch(r[2], -1) {
			labels = append(labels, l[1])
		}
		if r[3] == "histogram" {
			all[r[1]+"_bucket"], all[r[1]+"_count"] = append(slices.Clone(labels), "le"), labels
			continue
		}
		all[r[1]] = labels
	}
	return all
}

// check parses an expression, and reports series and labels that no node has.
func check(t *testing.T, of, expr string, all map[string][]string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(strings.ReplaceAll(expr, "$__rate_interval", "1m"))
	if err != nil {
		t.Errorf("%s: %q: %v", of, expr, err)
		return
	}
	known, series := []string{"instance", "job"}, 0
	var grouping []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			series++
			labels, ok := all[n.Name]
			if !ok {
				t.Errorf("%s: %q: no node has the series %s", of, expr, n.Name)
			}
			known = append(known, labels...)
		case *parser.AggregateExpr:
			grouping = append(grouping, n.Grouping...)
		}
		return nil
	})
	if series == 0 {
		t.Errorf("%s: %q reads no series", of, expr)
	}
	for _, label := range grouping {
		if !slices.Contains(known, label) {
			t.Errorf("%s: %q: none of its series has the label %s", of, expr, label)
		}
	}
}

// Each alert parses, reads series that exist, says what happens, and names its runbook.
func TestAlerts(t *testing.T) {
	groups, errs := rulefmt.Parse([]byte(read(t, alertsFile)), false, model.UTF8Validation,
		parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 || len(groups.Groups) != 1 {
		t.Fatalf("%s: %v; want one group of rules", alertsFile, errs)
	}
	all := exposed(t)
	var names []string
	for _, r := range groups.Groups[0].Rules {
		names = append(names, r.Alert)
		check(t, r.Alert, r.Expr, all)
		if s := r.Labels["severity"]; s != "critical" && s != "warning" || r.Annotations["summary"] == "" {
			t.Errorf("%s: severity %q, summary %q", r.Alert, s, r.Annotations["summary"])
		}
		if want := runbooks + "#" + strings.ToLower(r.Alert); r.Annotations["runbook"] != want {
			t.Errorf("%s: the annotation runbook is %q, want %q", r.Alert, r.Annotations["runbook"], want)
		}
	}
	if told := described(t); !slices.Equal(names, told) {
		t.Errorf("the alerts are\n%v\nand %s has runbooks for\n%v", names, runbooks, told)
	}
}

// described returns the alerts that have a runbook, a section of their name that says what the alert means.
func described(t *testing.T) (names []string) {
	t.Helper()
	sections := regexp.MustCompile("(?m)^## (Holdfast\\w+)\n((?:[^#\n].*\n|\n|###.*\n)*)").
		FindAllStringSubmatch(read(t, "../../"+runbooks), -1)
	for _, s := range sections {
		names = append(names, s[1])
		if !strings.Contains(s[2], "**Means.**") || !strings.Contains(s[2], "**Act") {
			t.Errorf("%s: the runbook %s needs the paragraphs Means and Act", runbooks, s[1])
		}
	}
	return names
}

// Each panel of the dashboard parses and reads series that exist.
func TestDashboard(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			ID          int
			Type, Title string
			GridPos     struct{ X, W int }
			Targets     []struct{ Expr string }
			Datasource  struct{ UID string }
			FieldConfig struct{ Defaults struct{ Unit string } }
		}
	}
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &dashboard); err != nil {
		t.Fatal(err)
	}
	all, ids, exprs := exposed(t), map[int]bool{}, 0
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q has the id of another one, or is beyond the right edge", p.Title)
		}
		ids[p.ID] = true
		if p.Type != "row" &&
			(len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" || p.FieldConfig.Defaults.Unit == "") {
			t.Errorf("panel %q has no target, unit or data source: %+v", p.Title, p)
		}
		for _, target := range p.Targets {
			exprs++
			check(t, "panel "+p.Title, target.Expr, all)
		}
	}
	if exprs < 30 {
		t.Errorf("the dashboard has %d expressions: its form is not what this test reads", exprs)
	}
}
