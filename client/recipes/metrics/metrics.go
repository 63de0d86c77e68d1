// Package metrics exports waits and grants of recipes, with their durations, to Prometheus. Programs that do not import
// it link nothing of Prometheus.
package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/client/recipes"
	"holdfast/session"
)

// Recipes is a [recipes.Observer] and a [prometheus.Collector]. One Recipes serves any number of sessions and paths.
// Paths are not labels, because their number is unbounded: to count some locks separately, register a Recipes for each,
// with labels from [prometheus.WrapRegistererWith]. Safe for concurrent use.
//
//	holdfast_recipe_waiting {recipe}                   gauge: calls that wait now
//	holdfast_recipe_holding {recipe}                   gauge: grants that are held now
//	holdfast_recipe_wait_seconds {recipe, outcome}     histogram: how long calls waited
//	holdfast_recipe_hold_seconds {recipe, end}         histogram: how long grants were held
//
// The outcome is "granted", "busy" of a call that does not wait, "given up" when its context was canceled or timed out,
// "removed" when its entry was removed, "session ended", or "failed". The end of a grant is "released", "removed",
// "session ended" or "failed".
type Recipes struct {
	waiting, holding *prometheus.GaugeVec
	waited, held     *prometheus.HistogramVec
}

var (
	_ recipes.Observer     = (*Recipes)(nil)
	_ prometheus.Collector = (*Recipes)(nil)
)

// New returns unregistered metrics.
func New() *Recipes {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"recipe"})
	}
	histogram := func(name, help, label string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 4, 12), // to 70 minutes
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		}, []string{"recipe", label})
	}
	return &Recipes{
		waiting: gauge("holdfast_recipe_waiting", "Calls that wait for what a recipe grants."),
		holding: gauge("holdfast_recipe_holding", "Grants of a recipe that are held."),
		waited:  histogram("holdfast_recipe_wait_seconds", "How long calls waited, by what became of them.", "outcome"),
		held:    histogram("holdfast_recipe_hold_seconds", "How long grants were held, by why they ended.", "end"),
	}
}

// Waits counts a call that begins to wait.
func (m *Recipes) Waits(recipe, _ string) { m.waiting.WithLabelValues(recipe).Inc() }

// Waited counts a call that has stopped waiting, and its grant if there is one.
func (m *Recipes) Waited(recipe, _ string, d time.Duration, err error) {
	m.waiting.WithLabelValues(recipe).Dec()
	m.waited.WithLabelValues(recipe, reason(err)).Observe(d.Seconds())
	if err == nil && recipe != "barrier" { // a barrier has no holder
		m.holding.WithLabelValues(recipe).Inc()
	}
}

// Held counts a grant that is over.
func (m *Recipes) Held(recipe, _ string, d time.Duration, why error) {
	m.holding.WithLabelValues(recipe).Dec()
	m.held.WithLabelValues(recipe, reason(why)).Observe(d.Seconds())
}

// reason names the outcome of a call, or why a grant is over.
func reason(err error) string {
	is := func(all ...error) bool {
		for _, one := range all {
			if errors.Is(err, one) {
				return true
			}
		}
		return false
	}
	switch {
	case err == nil:
		return "granted"
	case is(recipes.ErrReleased):
		return "released"
	case is(recipes.ErrBusy):
		return "busy"
	case is(recipes.ErrBroken):
		return "removed"
	case is(session.ErrExpired, session.ErrMoved, session.ErrClosed, session.ErrBadCredential):
		return "session ended"
	case is(context.Canceled, context.DeadlineExceeded):
		return "given up"
	}
	return "failed"
}

// Describe implements [prometheus.Collector].
func (m *Recipes) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(to)
	}
}

// Collect implements [prometheus.Collector].
func (m *Recipes) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(to)
	}
}

func (m *Recipes) all() []prometheus.Collector {
	return []prometheus.Collector{m.waiting, m.holding, m.waited, m.held}
}
