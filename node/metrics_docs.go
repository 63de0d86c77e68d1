package node

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// MetricReference returns the table of metrics as Markdown. Metrics with one name share a row.
func MetricReference() string {
	var b strings.Builder
	b.WriteString("| metric | type | unit | meaning | look when |\n|---|---|---|---|---|\n")
	all := allMetrics()
	var names []string
	for _, m := range all {
		if slices.Contains(names, m.name) {
			continue
		}
		names = append(names, m.name)
		fmt.Fprintf(&b, "| `holdfast_%s`%s | %s | %s | %s | %s |\n", m.name, reasonsOf(m.name, all), m.typeName(),
			m.unit(), m.help, m.alarm)
	}
	for of, t := range histograms() {
		label := ""
		if of == roundTripTime {
			label = ", `member`: its node number"
		}
		fmt.Fprintf(&b, "| `holdfast_%s`%s | histogram | seconds | %s | %s |\n", t.name, label, t.help, t.alarm)
	}
	return b.String()
}

// reasonsOf lists the values of the label reason of all metrics called name.
func reasonsOf(name string, all []metric) string {
	var values []string
	for _, m := range all {
		if m.name == name && m.reason != "" && !slices.Contains(values, "`"+m.reason+"`") {
			values = append(values, "`"+m.reason+"`")
		}
	}
	if len(values) == 0 {
		return ""
	}
	text := ", `reason` " + strings.Join(values, ", ")
	if i := slices.IndexFunc(all, func(m metric) bool { return m.name == name }); all[i].act != "" {
		text += ", and a label act"
	}
	return text
}

// typeName returns the type of m as Prometheus names it.
func (m metric) typeName() string {
	if m.kind == prometheus.CounterValue {
		return "counter"
	}
	return "gauge"
}

// unit returns the unit that the name of m ends with by the conventions of Prometheus, or else tells from the help
// text.
func (m metric) unit() string {
	switch {
	case strings.HasSuffix(strings.TrimSuffix(m.name, "_total"), "_seconds"):
		return "seconds"
	case strings.Contains(m.name, "_bytes_"):
		return "bytes"
	case strings.HasPrefix(m.help, "1 while "):
		return "0 or 1"
	default:
		return "number"
	}
}
