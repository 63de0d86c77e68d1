package console

import (
	"iter"
	"maps"
	"math"

	dto "github.com/prometheus/client_model/go"
)

// bucket counts a histogram's observations above lower and up to upper.
type bucket struct{ lower, upper, count float64 }

// bucketsSince returns a histogram's observations since an earlier state, the lowest bucket first. Classic buckets grow
// by a factor of two: they do not distinguish a promise of 9 s from one of 5.2 s. So bucketsSince uses the finer native
// buckets, unless the two states have different ones. The last classic bucket has no upper bound.
func bucketsSince(now, then *dto.Histogram) []bucket {
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
	former := maps.Collect(nativeCounts(then))
	// Bucket i ends at base^i, and base is 2^(2^-schema).
	bound := func(i int32) float64 { return math.Exp2(math.Ldexp(float64(i), -int(now.GetSchema()))) }
	for at, count := range nativeCounts(now) {
		all = append(all, bucket{bound(at - 1), bound(at), float64(count - former[at])})
	}
	return all
}

// nativeCounts yields the native buckets of a histogram in order, with their counts. Offsets separate the spans, and
// each count is encoded as its difference from the previous count.
func nativeCounts(h *dto.Histogram) iter.Seq2[int32, int64] {
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
