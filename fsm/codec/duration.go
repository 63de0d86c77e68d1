package codec

import (
	"math"
	"time"
)

// DurationOf returns ms as a duration.
func DurationOf(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }

// AgeMS returns an age as milliseconds plus 1. It returns 0 for a negative age, which means an unknown age. Only people
// read ages, so an age above 49 days becomes 49 days.
func AgeMS(age time.Duration) uint32 {
	if age < 0 {
		return 0
	}
	return uint32(min(age.Milliseconds(), math.MaxUint32-1)) + 1
}

// SpanMS returns d in milliseconds, and 0 for a negative d. Only people read spans, so a span above 49 days becomes 49
// days. [DurationOf] is the inverse.
func SpanMS(d time.Duration) uint32 { return uint32(min(max(d.Milliseconds(), 0), math.MaxUint32)) }

// AgeOf is the inverse of [AgeMS].
func AgeOf(ms uint32) time.Duration {
	return (time.Duration(ms) - 1) * time.Millisecond
}

// CreditedMS returns d in whole milliseconds, and 0 for a negative d.
func CreditedMS(d time.Duration) uint64 { return uint64(max(d.Milliseconds(), 0)) }

// CreditedOf is the inverse of [CreditedMS]. It bounds ms to what a duration can hold.
func CreditedOf(ms uint64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
}
