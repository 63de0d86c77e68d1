package ui

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/test/timeout"
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
		timeout.Check(t, err)
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
	brief, err := cl.Open(ctx, client.SessionOptions{Timeout: 15 * time.Second})
	timeout.Check(t, err)
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
// loaded anew with each sample. Each is a browser with connections of its own, as on a desk of its own. They are 200
// people, whom the node tells apart, or 200 pages of one. It reports the share of one core and the memory, less what the
// nodes take without them, and with what the browsers' side takes, and fails if a stream breaks or a load does.
func BenchmarkOpenConsoles(b *testing.B) {
	for _, people := range []int{1, consoles} {
		b.Run(fmt.Sprintf("people=%d", people), func(b *testing.B) { openConsoles(b, people) })
	}
}

// consoles is how many pages are open in BenchmarkOpenConsoles.
const consoles = 200

func openConsoles(b *testing.B, people int) {
	b.Helper()
	c := begin(b, nil)
	const span = 30 * time.Second
	used(10 * time.Second) // the cluster settles
	idle, idleMemory := used(span), memory()
	ctx, cancel := context.WithCancel(b.Context())
	var open sync.WaitGroup
	var loads atomic.Int64
	for i := range consoles {
		one := &desk{cluster: c, person: i % people}
		open.Go(func() {
			if err := one.watch(ctx, &loads); ctx.Err() == nil {
				b.Errorf("console %d: %v", i, err)
			}
			one.browser.CloseIdleConnections()
		})
	}
	used(5 * time.Second)
	for b.Loop() {
		before := loads.Load()
		b.ReportMetric(100*(used(span)-idle), "%core")
		b.ReportMetric(100*idle, "%core-idle")
		b.ReportMetric(float64(loads.Load()-before)/span.Seconds(), "loads/s")
		b.ReportMetric((memory()-idleMemory)/(1<<20), "MB")
	}
	cancel()
	open.Wait()
}

// desk is a browser with the overview open.
type desk struct {
	*cluster
	person  int
	browser http.Client
}

// watch loads the content anew with each event, and returns why it ends.
func (d *desk) watch(ctx context.Context, loads *atomic.Int64) error {
	d.browser.Transport = &http.Transport{}
	stream, err := d.get(ctx, "events", "")
	if err != nil {
		return err
	}
	defer stream.Body.Close() // it ends with the benchmark
	buffer := make([]byte, 4096)
	for {
		if _, err := stream.Body.Read(buffer); err != nil {
			return fmt.Errorf("the stream: %w", err)
		}
		content, err := d.get(ctx, "", "content")
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, content.Body)
		if err = errors.Join(err, content.Body.Close()); err != nil {
			return fmt.Errorf("the overview: %w", err)
		}
		loads.Add(1)
	}
}

func (d *desk) get(ctx context.Context, page, part string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url(0, page), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", fmt.Sprintf("Bearer person-%d", d.person))
	if part != "" {
		r.Header.Set("Holdfast-Part", part)
	}
	answer, err := d.browser.Do(r)
	if err == nil && answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close() // the status says it
		err = fmt.Errorf("%s answers %s", r.URL, answer.Status)
	}
	return answer, err
}

// memory returns how many bytes this process uses for objects and stacks.
func memory() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
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
