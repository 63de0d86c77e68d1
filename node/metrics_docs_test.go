package node

import (
	"flag"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	metricsPage  = "../docs/operations.md"
	metricsBegin = "<!-- metrics: begin, written by go test ./node -run TestMetricsInDocuments -update -->\n"
	metricsEnd   = "<!-- metrics: end -->"
)

var update = flag.Bool("update", false, "write the table of metrics into the document")

// The page for operators shows the metrics as they are.
func TestMetricsInDocuments(t *testing.T) {
	b, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), metricsBegin)
	table, after, ok2 := strings.Cut(rest, metricsEnd)
	switch {
	case !ok || !ok2:
		t.Fatalf("%s: no table of metrics between\n%s%s", metricsPage, metricsBegin, metricsEnd)
	case table == MetricReference():
	case !*update:
		t.Errorf("%s: the table of metrics is old: run this test with -update", metricsPage)
	default:
		if err := os.WriteFile(metricsPage, []byte(before+metricsBegin+MetricReference()+metricsEnd+after),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The reference names what a node exposes, with its type and reasons, and nothing else.
func TestMetricReferenceIsWhatANodeExposes(t *testing.T) {
	c := alone(t)
	start(t, c)
	code, body := get(t, "http://"+c.Listen.HTTP+"/metrics")
	if code != http.StatusOK {
		t.Fatalf("metrics: %d", code)
	}
	exposed := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (holdfast_\w+) (\w+)$`).FindAllStringSubmatch(body, -1) {
		exposed[m[1]] = m[2]
	}
	reasons := regexp.MustCompile(`(?m)^(holdfast_\w+)\{(?:act="[^"]+",)?reason="(\w+)"\} `)
	for _, m := range reasons.FindAllStringSubmatch(body, -1) {
		if !slices.Contains(strings.Fields(exposed[m[1]]), m[2]) { // once, however many acts have it
			exposed[m[1]] += " " + m[2]
		}
	}
	documented := make(map[string]string)
	for line := range strings.Lines(MetricReference()) {
		if name := quotedName.FindAllStringSubmatch(strings.Split(line, "|")[1], -1); name != nil {
			documented[name[0][1]] = strings.TrimSpace(strings.Split(line, "|")[2])
			for _, reason := range sortedReasons(name) {
				documented[name[0][1]] += " " + reason
			}
		}
	}
	if !maps.Equal(exposed, documented) {
		t.Errorf("a node exposes\n%v\nand the reference has\n%v", exposed, documented)
	}
}

var quotedName = regexp.MustCompile("`(\\w+)`")

// sortedReasons returns what follows a name and the word reason, in the order in which Prometheus exposes it.
func sortedReasons(quoted [][]string) []string {
	var reasons []string
	for _, q := range quoted[min(2, len(quoted)):] {
		reasons = append(reasons, q[1])
	}
	slices.Sort(reasons)
	return reasons
}
