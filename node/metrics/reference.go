package metrics

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Reference returns the table of all metrics as Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString("| metric | type | meaning | investigate if |\n|---|---|---|---|\n")
	for _, m := range table() {
		fmt.Fprintf(&b, "| `%s`%s | %s | %s | %s |\n", prefix+m.name, m.labels(), m.typeName(), m.help, m.alert)
	}
	for _, t := range histograms() {
		label := ""
		if t.member {
			label = ", `member`"
		}
		fmt.Fprintf(&b, "| `%s`%s | histogram | %s | %s |\n", prefix+t.name, label, t.help, t.alert)
	}
	return b.String()
}

// labels lists the labels of m. Of the label action, which has many values, it has the name only.
func (m *metric) labels() string {
	values := make(map[string][]string)
	for _, s := range m.series {
		for name, v := range s.labels {
			if v = "`" + v + "`"; !slices.Contains(values[name], v) {
				values[name] = append(values[name], v)
			}
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		b.WriteString(", `" + name + "`")
		if name != actionLabel {
			b.WriteString(": " + strings.Join(values[name], ", "))
		}
	}
	return b.String()
}

// typeName returns the type of m as Prometheus names it.
func (m *metric) typeName() string {
	if m.kind == prometheus.CounterValue {
		return "counter"
	}
	return "gauge"
}
