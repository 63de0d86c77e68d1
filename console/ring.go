package console

import (
	"slices"
	"time"
)

const (
	// sampleInterval is the time between two samples, ringSamples how many are kept: an hour of samples.
	sampleInterval = 5 * time.Second
	ringSamples    = int(time.Hour / sampleInterval)
)

// sample has the values of all series at a time. NaN is an unknown value.
type sample struct {
	at     time.Time
	values [seriesCount]float64
}

// ring keeps the newest samples. It is not safe for concurrent use.
type ring struct {
	samples []sample // at most ringSamples; once full, next is the oldest
	next    int
}

// add appends a sample, and drops the oldest one of a full ring.
func (r *ring) add(s sample) {
	if len(r.samples) < ringSamples {
		r.samples = append(r.samples, s)
		return
	}
	r.samples[r.next] = s
	r.next = (r.next + 1) % ringSamples
}

// all returns a copy of the samples, the oldest first.
func (r *ring) all() []sample {
	return slices.Concat(r.samples[r.next:], r.samples[:r.next])
}
