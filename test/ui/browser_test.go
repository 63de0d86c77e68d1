package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"holdfast/test/skip"
	"holdfast/test/timeout"
)

// browser is a tab of a headless browser. It notes what a page must not do: write errors to the console, and ask other
// hosts for anything.
type browser struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // chromedp keeps the tab in it
	// origin is the only one that pages may ask.
	origin string

	// changed: a change of the machine's networks has ended a request for a part of the page, see [networkChanged].
	changed atomic.Bool
	// posted: the newest page is the answer to a form, which a reload would send again.
	posted atomic.Bool

	mu     sync.Mutex
	faults []string
	// expected are beginnings of messages of the console that a test brings about: of answers 4xx, of a node that is gone.
	expected []string
}

// waitBound bounds the wait for what a page is to show.
const waitBound = 30 * time.Second

const (
	// networkChanged is the error with which Chromium ends requests when a network of the machine comes or goes, for
	// example one of containers beside the test. Requests to loopback end too. Chromium has no switch against that.
	networkChanged = "net::ERR_NETWORK_CHANGED"
	// maxLoads bounds how often a page is loaded because of changes of the network.
	maxLoads = 5
)

// open starts a browser, or skips the test where there is none; CI has one.
func open(t *testing.T, host string) *browser {
	t.Helper()
	return openWith(t, "http://"+host, nil)
}

// openWith starts a browser with options of its own, which may ask one origin alone.
func openWith(t *testing.T, origin string, more []chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium-headless-shell", "chromium"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		skip.Test(t, "no browser: install chromium-headless-shell or chromium (Debian) to run the tests of the console")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)
	options = append(options, more...)
	allocated, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocated)
	b := &browser{t: t, ctx: ctx, origin: origin, expected: []string{networkChanged}}
	t.Cleanup(func() {
		cancel()
		end()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, f := range b.faults {
			t.Error(f)
		}
	})
	messages, requests := chromedp.Console(ctx), chromedp.Events(ctx, network.RequestWillBeSent)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type == "error" || m.Type == "warning" || m.IsException() {
				b.fault(m.Text, "the console of the browser: %s %s", m.Text, m.URL)
			}
		}
	}()
	go func() {
		for r, err := range requests {
			if err != nil {
				return
			}
			if !strings.HasPrefix(r.Request.URL, b.origin+"/ui/") && !strings.HasPrefix(r.Request.URL, "data:") {
				b.fault(r.Request.URL, "a request elsewhere: %s", r.Request.URL)
			}
		}
	}()
	timeout.Check(t, chromedp.Listen(ctx, b.noteNetworkChange)) // not Events: the note precedes the end of the load
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
		return err
	}))
	return b
}

// fault notes what a page must not do, unless the test brings it about.
func (b *browser) fault(text, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.expected {
		if strings.Contains(text, e) {
			return
		}
	}
	b.faults = append(b.faults, fmt.Sprintf(format, args...))
}

// expect takes messages of the console with a text as right from now on.
func (b *browser) expect(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, text)
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	timeout.Check(b.t, b.try(steps...))
}

func (b *browser) try(steps ...chromedp.Action[chromedp.Void]) error {
	ctx, cancel := context.WithTimeout(b.ctx, waitBound)
	defer cancel()
	return chromedp.Do(ctx, steps...)
}

// noteNetworkChange notes that a part of a page is missing because of a change of the network. What the page's script
// asks for, the script asks for again.
func (b *browser) noteNetworkChange(event any) {
	if sent, ok := event.(*network.EventRequestWillBeSent); ok && sent.Type == network.ResourceTypeDocument {
		b.posted.Store(sent.Request.Method == http.MethodPost)
	}
	failed, ok := event.(*network.EventLoadingFailed)
	if !ok || failed.ErrorText != networkChanged {
		return
	}
	if failed.Type != network.ResourceTypeFetch && failed.Type != network.ResourceTypeEventSource {
		b.changed.Store(true)
	}
}

// load loads a page, and loads it again if a change of the network has ended a request for any part of it.
func (b *browser) load(step chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	for range maxLoads {
		b.changed.Store(false)
		err := b.try(step)
		failed, ok := errors.AsType[*chromedp.LoadError](err)
		if !b.changed.Load() && (!ok || failed.ErrorText != networkChanged) {
			timeout.Check(b.t, err)
			return
		}
		time.Sleep(lookInterval)
	}
	timeout.Fatalf(b.t, "the networks of this machine have changed during each of %d loads of the page", maxLoads)
}

// value returns what an expression of JavaScript comes to.
func value[T any](b *browser, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitBound)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		timeout.Check(b.t, fmt.Errorf("%s: %w", expression, err))
	}
	return v
}

// lookInterval is how often a test looks at a page: no event of the browser would do for all that pages wait for.
const lookInterval = 50 * time.Millisecond

// until waits until an expression is true. While the browser goes from one page to the next it has no value.
func (b *browser) until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitBound)
	defer cancel()
	for {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		if err == nil && is {
			return
		}
		select {
		case <-time.After(lookInterval):
		case <-ctx.Done():
			timeout.Fatalf(b.t, "waiting until %s: %v; the page shows:\n%s", expression, err, b.text())
		}
	}
}

// shows waits until the page shows a text.
func (b *browser) shows(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

func (b *browser) text() string { return value[string](b, "document.body.innerText") }

func (b *browser) visit(url string) {
	b.t.Helper()
	b.load(chromedp.Navigate(url))
}

// before has a script run in each page before the page's own.
func (b *browser) before(script string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	timeout.Check(b.t, err)
}

// press clicks the button with a text and waits for the next page.
func (b *browser) press(text string) {
	b.t.Helper()
	b.changed.Store(false)
	clicked := value[bool](b, fmt.Sprintf(`(() => {
		const all = [...document.querySelectorAll("button, a.button")].filter((one) => one.textContent.trim() === %q);
		if (all.length !== 1) return false;
		window.here = true;
		all[0].click();
		return true;
	})()`, text))
	if !clicked {
		b.t.Fatalf("there is not one button %q; the page shows:\n%s", text, b.text())
	}
	b.until(`!window.here && document.readyState === "complete"`)
	if b.changed.Load() && !b.posted.Load() {
		b.load(chromedp.Reload())
	}
}

// fill enters a value into the one field with a name.
func (b *browser) fill(form, name, text string) {
	b.t.Helper()
	if !value[bool](b, fmt.Sprintf(`(() => {
		const one = document.querySelector('form[action=%q] [name=%q]');
		if (one) one.value = %q;
		return !!one;
	})()`, form, name, text)) {
		b.t.Fatalf("no field %s in the form %s; the page shows:\n%s", name, form, b.text())
	}
}

// looks sets the size and the colours of the window.
func (b *browser) looks(width, height int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	timeout.Check(b.t, err)
}

// picture keeps what the window shows with the test's artifacts.
func (b *browser) picture(name string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitBound)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	timeout.Check(b.t, err)
	timeout.Check(b.t, os.WriteFile(filepath.Join(b.t.ArtifactDir(), name+".png"), png, 0o600))
}
