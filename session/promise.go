package session

import "time"

// SafeFor returns the promise of a session whose newest confirmed touch has an age (S3 length of a promise); negative
// for no promise. A hundredth of the timeout and a millisecond are a margin for clocks that run at different rates.
func SafeFor(timeout, age time.Duration) time.Duration {
	if safe := timeout - age - timeout/100 - time.Millisecond; safe > 0 {
		return safe
	}
	return -1
}
