package fsm

import (
	"math"
	"time"
)

func unpackTimeout(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }

// packAge is the form of an age in the log and in snapshots: milliseconds plus 1, 0 for a negative age, which is
// unknown. Ages are for people; one above 49 days is shown as that.
func packAge(age time.Duration) uint32 {
	if age < 0 {
		return 0
	}
	return uint32(min(age.Milliseconds(), math.MaxUint32-1)) + 1
}

func unpackAge(packed uint32) time.Duration {
	return (time.Duration(packed) - 1) * time.Millisecond
}

// packCredited and unpackCredited carry a duration that is not negative in whole milliseconds.
func packCredited(d time.Duration) uint64 { return uint64(max(d.Milliseconds(), 0)) }

func unpackCredited(ms uint64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
}
