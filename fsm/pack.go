package fsm

import (
	"math"
	"time"
)

// The functions here turn durations into the integers of the log, of snapshots and of the tables, and back.

func unpackTimeout(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }

// packAge returns an age as milliseconds plus 1, or 0 for a negative age, which means unknown. Ages are for people, so
// an age above 49 days becomes 49 days.
func packAge(age time.Duration) uint32 {
	if age < 0 {
		return 0
	}
	return uint32(min(age.Milliseconds(), math.MaxUint32-1)) + 1
}

// packSpan returns a duration as milliseconds, 0 for a negative one. It is for people, like an age.
func packSpan(d time.Duration) uint32 { return uint32(min(max(d.Milliseconds(), 0), math.MaxUint32)) }

func unpackAge(packed uint32) time.Duration {
	return (time.Duration(packed) - 1) * time.Millisecond
}

// packCredited returns a duration in whole milliseconds, 0 for a negative one.
func packCredited(d time.Duration) uint64 { return uint64(max(d.Milliseconds(), 0)) }

func unpackCredited(ms uint64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
}
