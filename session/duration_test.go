package session

import (
	"testing"
	"time"
)

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                             "0s",
		250 * time.Millisecond:        "250ms",
		10 * time.Second:              "10s",
		time.Minute:                   "1m",
		10 * time.Minute:              "10m",
		90 * time.Second:              "1m30s",
		24 * time.Hour:                "24h",
		time.Hour + time.Minute:       "1h1m",
		time.Hour + 10*time.Second:    "1h0m10s",
		-time.Minute:                  "-1m",
		time.Minute + time.Nanosecond: "1m0.000000001s",
	} {
		got := FormatDuration(d)
		if got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
		if again, err := time.ParseDuration(got); err != nil || again != d {
			t.Errorf("%s is read back as %v, %v", got, again, err)
		}
	}
}
