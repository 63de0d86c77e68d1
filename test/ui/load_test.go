package ui

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"holdfast/client"
)

// Ten thousand sessions: pages list and search them without being slow, and follow each other to the end.
func TestTenThousandSessions(t *testing.T) {
	c := begin(t, nil)
	cl, ctx := c.connect(t), t.Context()
	const all = 10_000
	var opening sync.WaitGroup
	for w := range 100 {
		opening.Go(func() {
			for i := range all / 100 {
				_, err := cl.Open(ctx, client.SessionOptions{
					Timeout: 40 * time.Second, Labels: map[string]string{"name": fmt.Sprintf("batch-%d-%d", w, i)},
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	opening.Wait()
	b := open(t, c.configs[0].Listen.HTTP)
	b.visit(c.url(0, "sessions"))
	b.until(`document.body.innerText.replace(/\D/g, " ").replace(/ +/g, "").includes("10000")`)
	pages, rows := 0, 0
	next := regexp.MustCompile(`href="/ui/([^"]+)" rel="next"`)
	for page := "sessions"; page != ""; pages++ {
		answer, err := http.Get(c.url(0, page))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.Body.Close() != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", page, answer.Status, err)
		}
		rows += strings.Count(string(body), `<a href="/ui/sessions/0x`)
		page = ""
		if found := next.FindSubmatch(body); found != nil {
			page = html.UnescapeString(string(found[1]))
		}
	}
	if rows != all {
		t.Errorf("%d pages show %d sessions, want %d", pages, rows, all)
	}
	brief, err := cl.Open(ctx, client.SessionOptions{Timeout: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	b.visit(c.url(0, "sessions?order=left"))
	b.until(fmt.Sprintf(`document.querySelector("tbody th").innerText == %q`, brief.ID()))
	if rows := value[int](b, `document.querySelectorAll("tbody tr").length`); rows != 100 {
		t.Errorf("the page of the soonest to expire shows %d sessions, want 100", rows)
	}
	if more := value[int](b, `document.querySelectorAll("[rel=next]").length`); more != 0 {
		t.Error("the page of the soonest to expire has a next one")
	}
	b.visit(c.url(0, "sessions?label=name%3Dbatch-77-42"))
	b.shows("name=batch-77-42")
	if rows := value[int](b, `document.querySelectorAll("tbody tr").length`); rows != 1 {
		t.Errorf("the search shows %d sessions, want 1", rows)
	}
}

// BenchmarkOpenConsoles is what 200 open overviews cost the process of three nodes: their streams, and their content
// loaded anew with each sample. It reports the share of one core, less what the nodes cost without them.
func BenchmarkOpenConsoles(b *testing.B) {
	c := begin(b, nil)
	const consoles, span = 200, 30 * time.Second
	used(10 * time.Second) // the cluster settles
	idle := used(span)
	ctx, cancel := context.WithCancel(b.Context())
	var open sync.WaitGroup
	var loads atomic.Int64
	browsers := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: consoles, MaxConnsPerHost: 300}}
	get := func(page string, part bool) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url(0, page), nil)
		if err != nil {
			return nil, err
		}
		if part {
			r.Header.Set("Holdfast-Part", "content")
		}
		return browsers.Do(r)
	}
	for range consoles {
		open.Go(func() {
			stream, err := get("events", false)
			if err != nil {
				b.Error(err)
				return
			}
			defer stream.Body.Close() //nolint:errcheck // it ends with the benchmark
			buffer := make([]byte, 4096)
			for {
				if _, err := stream.Body.Read(buffer); err != nil {
					return
				}
				content, err := get("", true)
				if err != nil {
					return
				}
				if content.StatusCode != http.StatusOK {
					b.Errorf("the overview answers %s", content.Status)
				}
				loads.Add(1)
				_, _ = io.Copy(io.Discard, content.Body)
				_ = content.Body.Close()
			}
		})
	}
	used(5 * time.Second)
	for b.Loop() {
		before := loads.Load()
		b.ReportMetric(100*(used(span)-idle), "%core")
		b.ReportMetric(100*idle, "%core-idle")
		b.ReportMetric(float64(loads.Load()-before)/span.Seconds(), "loads/s")
	}
	cancel()
	open.Wait()
}

// used returns how many cores this process uses over a time.
func used(span time.Duration) float64 {
	at := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			panic(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	begin, before := time.Now(), at()
	<-time.After(span)
	return (at() - before).Seconds() / time.Since(begin).Seconds()
}
