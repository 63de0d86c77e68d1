package session

import (
	"context"
	"strings"
	"time"
)

// FormatDuration writes a duration for people: as [time.Duration.String], without trailing units that are 0. It writes
// 1m for 1m0s and 24h for 24h0m0s. [time.ParseDuration] reads the result.
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

// Sleep waits for d. When ctx ends first, Sleep returns its cause at once.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
