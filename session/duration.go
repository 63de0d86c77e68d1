package session

import (
	"strings"
	"time"
)

// FormatDuration writes a duration for people: as [time.Duration.String], without trailing units that are 0. It writes
// 1m for 1m0s and 24h for 24h0m0s. [time.ParseDuration] reads it back.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
