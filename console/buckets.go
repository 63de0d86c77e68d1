package console

import (
	"iter"
	"maps"
	"math"

	dto "github.com/prometheus/client_model/go"
)

// bucket is how much a histogram has observed above lower, and not above upper.
type bucket struct{ lower, upper, count float64 }

// observed returns what a histogram has observed since another state of it, the lowest bucket first. Classic buckets
// grow by a factor of two: a promise of 9 s and one of 5.2 s are the same to them. So it takes the native ones, which
// are finer, unless the two states have different ones. Behind the classic ones comes one without an upper bound.
func observed(now, then *dto.Histogram) []bucket {
	same := then == nil || then.GetSchema() == now.GetSchema() && then.GetZeroThreshold() == now.GetZeroThreshold()
	if len(now.GetPositiveSpan()) > 0 && same {
		return native(now, then)
	}
	return classic(now, then)
}

func classic(now, then *dto.Histogram) []bucket {
	var all []bucket
	lower, below := 0.0, 0.0
	for i, b := range now.GetBucket() {
		upTo := float64(b.GetCumulativeCount())
		if former := then.GetBucket(); i < len(former) {
			upTo -= float64(former[i].GetCumulativeCount())
		}
		all = append(all, bucket{lower, b.GetUpperBound(), max(0, upTo-below)})
		lower, below = b.GetUpperBound(), max(below, upTo)
	}
	return append(all, bucket{lower, math.Inf(1), float64(now.GetSampleCount()-then.GetSampleCount()) - below})
}

func native(now, then *dto.Histogram) []bucket {
	all := []bucket{{0, now.GetZeroThreshold(), float64(now.GetZeroCount()) - float64(then.GetZeroCount())}}
	former := maps.Collect(filled(then))
	// Bucket i ends at base^i, and base is 2^(2^-schema).
	bound := func(i int32) float64 { return math.Exp2(math.Ldexp(float64(i), -int(now.GetSchema()))) }
	for at, count := range filled(now) {
		all = append(all, bucket{bound(at - 1), bound(at), float64(count - former[at])})
	}
	return all
}

// filled yields the native buckets of a histogram in their order, with their counts. Spans lie apart by their
// offsets, and each count is written as what it differs by from the one before.
func filled(h *dto.Histogram) iter.Seq2[int32, int64] {
	return func(yield func(int32, int64) bool) {
		deltas := h.GetPositiveDelta()
		at, count := int32(0), int64(0)
		for _, span := range h.GetPositiveSpan() {
			at += span.GetOffset()
			for range min(int(span.GetLength()), len(deltas)) {
				count += deltas[0]
				deltas = deltas[1:]
				if !yield(at, count) {
					return
				}
				at++
			}
		}
	}
}
