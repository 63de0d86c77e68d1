package system

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"holdfast/session"
)

const (
	// pageBytes bounds a page of metrics.
	pageBytes = 16 << 20
	// liveWait bounds the wait for a collection: Go makes one every two minutes at least.
	liveWait = 3 * time.Minute
)

func copyTo(to *strings.Builder, from io.Reader) (int64, error) {
	return io.Copy(to, io.LimitReader(from, pageBytes))
}

// liveHeaps returns the sum of the live heaps of Go processes whose metrics are at the URLs. Go lets a heap grow by
// GOGC percent of what was live at the last collection, roots included, so its next goal shows what was live. Scrapes
// make the garbage that brings the next collection.
func liveHeaps(ctx context.Context, urls []string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, liveWait)
	defer cancel()
	var sum int64
	for _, url := range urls {
		live, err := liveHeap(ctx, url)
		if err != nil {
			return 0, err
		}
		sum += live
	}
	return sum, nil
}

// liveHeap waits for two collections: the first may have begun before the call.
func liveHeap(ctx context.Context, url string) (int64, error) {
	var seen []float64
	for {
		page, err := get(ctx, url)
		if err != nil {
			return 0, err
		}
		last, err := metric(page, "go_memstats_last_gc_time_seconds")
		if err != nil {
			return 0, err
		}
		if len(seen) == 0 || last != seen[len(seen)-1] {
			seen = append(seen, last)
		}
		if len(seen) > 2 {
			return liveOf(page)
		}
		if err := session.Sleep(ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// liveOf computes the live heap from a page of metrics. Older collectors of metrics do not report GOGC.
func liveOf(page string) (int64, error) {
	goal, err := metric(page, "go_memstats_next_gc_bytes")
	if err != nil {
		return 0, err
	}
	percent, err := metric(page, "go_gc_gogc_percent")
	if err != nil {
		percent = 100
	}
	return int64(goal / (1 + percent/100)), nil
}

// Metric asks a server of Prometheus metrics for the value of one that has no labels.
func Metric(ctx context.Context, url, name string) (float64, error) {
	page, err := get(ctx, url)
	if err != nil {
		return 0, err
	}
	return metric(page, name)
}

// metric returns the value of a metric without labels.
func metric(page, name string) (float64, error) {
	for line := range strings.Lines(page) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(rest), 64)
		}
	}
	return 0, fmt.Errorf("no metric %s", name)
}
