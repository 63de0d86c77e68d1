package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/session"
)

// metric is one row of [table].
type metric struct {
	// name has no prefix; all metrics get the same one.
	name, help string
	// alert says when an operator should act; empty for a metric that only explains others.
	alert  string
	kind   prometheus.ValueType
	series []series
}

// series is one value of a metric with its labels.
type series struct {
	labels prometheus.Labels
	read   func(s *Snapshot) float64
}

// gauge is a row for a value that rises and falls.
func gauge(name, help, alert string, all ...series) metric {
	return metric{name: name, help: help, alert: alert, kind: prometheus.GaugeValue, series: all}
}

// counter is a row for a value that only rises. Its name gets the suffix _total.
func counter(name, help, alert string, all ...series) metric {
	return metric{name: name + "_total", help: help, alert: alert, kind: prometheus.CounterValue, series: all}
}

// value is the series of a metric without labels.
func value[T number](read func(s *Snapshot) T) series {
	return series{read: func(s *Snapshot) float64 { return float(read(s)) }}
}

// label is the series of a metric for one value of a label.
func label[T number](name, of string, read func(s *Snapshot) T) series {
	one := value(read)
	one.labels = prometheus.Labels{name: of}
	return one
}

// number is the type of a metric's value.
type number interface {
	int | int64 | uint32 | uint64 | bool | session.Mode | time.Duration | time.Time
}

// float converts to the units of Prometheus: true is 1, a duration is in seconds, and a time is in seconds since 1970,
// or 0 for the zero time.
func float[T number](of T) float64 {
	switch v := any(of).(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case uint32:
		return float64(v)
	case uint64:
		return float64(v)
	case session.Mode:
		return float64(v)
	case time.Duration:
		return v.Seconds()
	case time.Time:
		if !v.IsZero() {
			return float64(v.Unix())
		}
	case bool:
		if v {
			return 1
		}
	}
	return 0
}
