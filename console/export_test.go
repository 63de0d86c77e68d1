package console

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/bubble"
)

// pipes is a listener of connections inside of the test.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr {
	return &net.TCPAddr{}
}

// slow is a connection over a link that moves 32 KB a second.
type slow struct{ net.Conn }

func (s slow) Read(b []byte) (int, error) {
	time.Sleep(time.Second)
	return io.ReadFull(s.Conn, b[:min(len(b), 32<<10)])
}

// deathPages reads pages of certificates, all of them full.
func deathPages(pages int) readDeaths {
	return func(_ context.Context, o client.DeathOptions) (client.DeathPage, error) {
		at, _ := strconv.Atoi(o.PageToken)
		p := client.DeathPage{Certificates: make([]session.Certificate, o.PageSize)}
		for i := range p.Certificates {
			p.Certificates[i] = session.Certificate{
				ID: session.ID(at*o.PageSize + i + 1), Cause: session.CauseClosed, Owner: 1, LastTouchAge: -1,
			}
		}
		if at+1 < pages {
			p.Next = strconv.Itoa(at + 1)
		}
		return p, nil
	}
}

// exportOver runs an export on a server with the timeouts of a node, and browse on the browser's end of the connection.
// It returns how long the export took.
func exportOver(t *testing.T, read readDeaths, browse func(net.Conn)) time.Duration {
	t.Helper()
	c := New(unansweredNode(func() {}))
	defer c.callers.close()
	began, took := time.Now(), make(chan time.Duration, 1)
	const bound = 10 * time.Second
	server := &http.Server{ReadTimeout: bound, WriteTimeout: bound, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			defer func() { took <- time.Since(began) }()
			c.export(r.Context(), w, r, &exportFile{read: read})
		})}
	l := &pipes{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	far, near := net.Pipe()
	l.conns <- far
	if _, err := io.WriteString(near, "GET / HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	browse(near)
	d := <-took
	if err := errors.Join(near.Close(), server.Close()); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	return d
}

// An export continues for as long as its reader reads, though the HTTP port gives an answer 10 s: that is enough for
// only a part of the 100,000 certificates. A reader that stops reading ends it.
func TestExportsOverSlowLinks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const pages = 16
		took := exportOver(t, deathPages(pages), func(near net.Conn) {
			answer, err := http.ReadResponse(bufio.NewReaderSize(slow{near}, 32<<10), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			if n := bytes.Count(body, []byte("\n")); err != nil || n != 1+pages*session.MaxPage {
				t.Errorf("the file has %d lines, want %d, %v", n, 1+pages*session.MaxPage, err)
			}
		})
		if took < 20*time.Second {
			t.Errorf("the export took %v: too little to prove anything", took)
		}
		if took = exportOver(t, deathPages(pages), func(net.Conn) {}); took != exportWriteTimeout {
			t.Errorf("a reader that takes nothing holds the export for %v, want %v", took, exportWriteTimeout)
		}
	})
}

// An export that cannot start is answered with a status and the reason. One that cannot continue breaks the connection:
// a file that ends early must not look complete.
func TestExportErrors(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := New(unansweredNode(func() {}))
		defer c.callers.close()
		export := func(pages int) (w *httptest.ResponseRecorder, broken any) {
			whole := deathPages(pages + 1)
			read := func(ctx context.Context, o client.DeathOptions) (client.DeathPage, error) {
				if o.PageToken == strconv.Itoa(pages) || pages == 0 {
					return client.DeathPage{}, fmt.Errorf("list deaths: %w", session.ErrNoLeader)
				}
				return whole(ctx, o)
			}
			w = httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "/ui/deaths.csv", nil)
			defer func() { broken = recover() }()
			c.export(r.Context(), w, r, &exportFile{read: read})
			return w, nil
		}
		w, broken := export(0)
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), session.ErrNoLeader.Error()) ||
			w.Header().Get("Content-Disposition") != "" || broken != nil {
			t.Errorf("without a leader: %d %v, broken by %v: %s", w.Code, w.Header(), broken, w.Body)
		}
		w, broken = export(2)
		if w.Code != http.StatusOK || broken != http.ErrAbortHandler { //nolint:errorlint // it is a value of recover
			t.Errorf("an export that ends early: %d, broken by %v", w.Code, broken)
		}
	})
}

// A file has 100,000 deaths at most. Where more match, its last line says so, and how to get the rest. It has as many
// cells as the others: a reader of CSV reads the whole file, and finds no id in it.
func TestExportsAreBounded(t *testing.T) {
	c := New(unansweredNode(func() {}))
	defer c.callers.close()
	const most, full = 100_000, 100_000 / session.MaxPage
	for pages, cut := range map[int]bool{full - 1: false, full: false, full + 1: true} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/ui/deaths.csv", nil)
		c.export(r.Context(), w, r, &exportFile{read: deathPages(pages)})
		rows, err := csv.NewReader(w.Body).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		deaths, last := len(rows)-1, rows[len(rows)-1][0]
		if strings.Contains(last, "limit of 100000 deaths") && strings.Contains(last, "holdfast session deaths") {
			deaths--
		}
		if want := min(pages*session.MaxPage, most); deaths != want || (deaths < len(rows)-1) != cut {
			t.Errorf("%d pages: %d deaths, and behind them %q; want %d, cut: %t", pages, deaths, last, want, cut)
		}
	}
}

// An unknown value is an empty cell: 0 would say that the session was touched as it ended. Certificates show whether
// their session was local.
func TestDeathsCSV(t *testing.T) {
	for age, want := range map[time.Duration]string{
		-1: "", -time.Millisecond: "", 0: "0", 1500 * time.Millisecond: "1500",
	} {
		w := httptest.NewRecorder()
		out := newCSV(w, "local")
		ended := session.Certificate{
			ID: 1, Cause: session.CauseExpired, LastTouchAge: age,
			Story: session.Story{Spec: session.Spec{Timeout: 4 * time.Second}, Late: time.Millisecond},
		}
		if err := out.write([]session.Certificate{ended}); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(w.Body).ReadAll()
		if err != nil || len(rows) != 2 {
			t.Fatalf("rows %q, %v", rows, err)
		}
		cells := make(map[string]string)
		for i, name := range rows[0] {
			cells[name] = rows[1][i]
		}
		if cells["last_touch_ms_before"] != want || cells["timeout_ms"] != "4000" || cells["late_ms"] != "1" ||
			cells["scope"] != "local" {
			t.Errorf("a last touch %v before: %q", age, cells)
		}
	}
}

// The ends of local sessions are asked for as those of global ones.
func TestDeathQueriesHaveAScope(t *testing.T) {
	for scope, want := range map[string]bool{"": false, "global": false, "local": true} {
		r := httptest.NewRequest(http.MethodGet, "/ui/deaths?"+url.Values{"scope": {scope}}.Encode(), nil)
		o, list, err := deathQuery(&request{Request: r})
		if err != nil || o.Local != want || list.Scope != scope {
			t.Errorf("scope %q: local %v, shown %q, %v", scope, o.Local, list.Scope, err)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/ui/deaths?scope=old", nil)
	if _, _, err := deathQuery(&request{Request: r}); err == nil || !strings.Contains(err.Error(), "scope: must be") {
		t.Errorf("scope old: %v", err)
	}
}
