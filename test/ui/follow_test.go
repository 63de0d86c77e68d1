package ui

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"holdfast/client"
	"holdfast/node/config"
	"holdfast/test/timeout"
)

// Whatever keeps a page from showing a change at once, it shows the change in the end, though nothing else happens and
// no other event comes: a load that began before the change, loads that fail, text that somebody has selected. While
// loads fail it says so, whatever the stream of events says.
func TestAPageCatchesUp(t *testing.T) {
	c := begin(t, nil)
	c.connect(t)
	b := open(t, c.configs[0].Listen.HTTP)
	b.before(`window.logs = 0;
		window.fetched = window.fetch;
		window.EventSource = class extends EventSource {
			constructor(...args) {
				super(...args);
				window.stream = this;
				this.addEventListener("log", () => { window.logs++; });
			}
		};`)
	// change opens a session, and returns once the page has heard of it.
	change := func(name string) {
		t.Helper()
		value[bool](b, "window.logs = 0, true")
		if _, err := c.client.Open(t.Context(), client.SessionOptions{
			Timeout: 40 * time.Second, Labels: map[string]string{"name": name},
		}); err != nil {
			t.Fatal(err)
		}
		b.until("window.logs > 0")
	}
	const says = `document.getElementById("live").textContent`
	b.visit(c.url(0, "sessions?scope=global")) // it follows the log alone
	b.until(says + ` === "Live"`)
	change("zero")
	b.shows("name=zero")

	value[bool](b, `window.fetch = async (...args) => {
		const answer = await window.fetched(...args);
		await new Promise((go) => { window.go = go; });
		return answer;
	}, true`)
	change("one")
	b.until(`"go" in window`)
	change("two")
	value[bool](b, `window.fetch = window.fetched, window.go(), true`)
	b.shows("name=two")

	value[bool](b, `window.fetch = () => Promise.reject(new TypeError("cut")), true`)
	change("three")
	b.until(says + ` === "Stale. Cannot reach the node."`)
	// The node ends each stream after a while, and the browser comes back.
	value[bool](b, `window.stream.dispatchEvent(new Event("error")), window.stream.dispatchEvent(new Event("open")), true`)
	if text := value[string](b, says); !strings.HasPrefix(text, "Stale.") {
		t.Errorf("a page with old content says %q once its stream has come back", text)
	}
	value[bool](b, `window.fetch = window.fetched, true`)
	b.shows("name=three")
	b.until(says + ` === "Live"`)

	value[bool](b, `getSelection().selectAllChildren(document.querySelector("main h1")), true`)
	change("four")
	if !value[bool](b, `!getSelection().isCollapsed && !document.body.innerText.includes("name=four")`) {
		t.Error("a page that was loaded anew has taken a selection away")
	}
	value[bool](b, `getSelection().removeAllRanges(), true`)
	b.shows("name=four")
}

// The times of plots are UTC, as all others, wherever the browser is.
func TestPlotsAreInUTC(t *testing.T) {
	c := begin(t, nil)
	b := open(t, c.configs[0].Listen.HTTP)
	if _, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride,
		emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"}); err != nil { // 5 h 30 min ahead
		t.Fatal(err)
	}
	b.before(`window.drawn = [];
		const fill = CanvasRenderingContext2D.prototype.fillText;
		CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
			window.drawn.push(...String(text).match(/\d+:\d\d[ap]m/g) || []);
			return fill.call(this, text, ...at);
		};`)
	b.visit(c.url(0, ""))
	b.until("window.drawn.length > 0")
	for _, label := range value[[]string](b, "[...new Set(window.drawn)]") {
		at, err := time.Parse("3:04pm", label)
		timeout.Check(t, err)
		now := time.Now().UTC()
		apart := now.Sub(time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)).Abs()
		if min(apart, 24*time.Hour-apart) > time.Hour {
			t.Errorf("at %v a plot says %s", now, label)
		}
	}
}

// A figure with nothing before and behind it, such as the lateness of a single expiry, is seen: a line has no length
// there.
func TestALonePointIsSeen(t *testing.T) {
	c := begin(t, nil)
	b := open(t, c.configs[0].Listen.HTTP)
	b.expect("Canvas2D: Multiple readback operations") // of this test
	b.before(`const fetched = window.fetch;
		window.fetch = async (what, ...more) => {
			if (what !== "/ui/samples") return fetched(what, ...more);
			const t = Array.from({length: 600}, (_, i) => Date.now() / 1000 - 5 * (600 - i));
			return new Response(JSON.stringify({t, values: {lateness_ms: t.map((_, i) => i === 300 ? 40 : null)}}));
		};`)
	b.visit(c.url(0, ""))
	b.until(`(() => {
		const figure = [...document.querySelectorAll("#plots figure")].find((one) => one.textContent.startsWith("Expiry lateness"));
		const plot = figure?.querySelector("canvas");
		if (!plot) return false;
		const colour = getComputedStyle(figure.querySelector(".c1")).color.match(/\d+/g).map(Number);
		const dots = plot.getContext("2d").getImageData(0, 0, plot.width, plot.height).data;
		window.seen = 0;
		for (let at = 0; at < dots.length; at += 4) {
			if (dots[at + 3] > 200 && colour.every((c, i) => Math.abs(c - dots[at + i]) < 16)) window.seen++;
		}
		return window.seen >= 9; // a dot of three by three
	})()`)
}

// A screen reader reads out what the page says of itself whenever it changes: for how long a node has been silent
// changes a few times, and not each second.
func TestSilenceIsReadOutInSteps(t *testing.T) {
	c := begin(t, nil)
	b := open(t, c.configs[0].Listen.HTTP)
	b.before(`window.ahead = 0;
		const start = Date.now();
		Date.now = () => { window.asked = true; return start + window.ahead; };
		window.EventSource = class extends EventTarget { close() {} }; // a node that says nothing`)
	b.visit(c.url(0, "settings"))
	for _, step := range []struct{ from, to, says string }{
		{"16e3", "59e3", "more than 15 s"},
		{"60e3", "599e3", "more than a minute"},
		{"600e3", "3599e3", "more than 10 minutes"},
		{"3600e3", "1e9", "more than an hour"},
	} {
		for _, ahead := range []string{step.from, step.to} {
			value[bool](b, fmt.Sprintf("window.asked = false, window.ahead = %s, true", ahead))
			b.until("window.asked") // each second, and then it says at once what there is to say
			want := "Stale. No data received for " + step.says + "."
			if got := value[string](b, `document.getElementById("live").textContent`); got != want {
				t.Errorf("%s ms ahead the page says %q, want %q", ahead, got, want)
			}
		}
	}
}

// The ends of local sessions are on the page of their node, which follows them though they are in no log, and in what
// it exports. Those of others are not among them.
func TestDeathsOfLocalSessions(t *testing.T) {
	c := begin(t, func(cfg *config.Config) { cfg.Sessions.Local = true })
	c.connect(t)
	var ends [2]*client.Session
	for i := range ends {
		var err error
		ends[i], err = c.client.Open(t.Context(), client.SessionOptions{Timeout: 40 * time.Second, Local: i == 1})
		timeout.Check(t, err)
	}
	at := int(ends[1].ID().Node()) - 1
	b := open(t, c.configs[at].Listen.HTTP)
	b.visit(c.url(at, "deaths?scope=local"))
	b.shows("No matches in this part of the list")
	for _, s := range ends {
		timeout.Check(t, s.Close(t.Context()))
	}
	b.shows(ends[1].ID().String())
	for query, want := range map[string][2]bool{"": {true, false}, "?scope=local": {false, true}} {
		answer, err := http.Get(c.url(at, "deaths.csv"+query))
		timeout.Check(t, err)
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.Body.Close() != nil {
			t.Fatal(err)
		}
		for i, s := range ends {
			if got := strings.Contains(string(body), s.ID().String()); got != want[i] {
				t.Errorf("deaths.csv%s has session %v: %v, want %v: %s", query, s.ID(), got, want[i], body)
			}
		}
	}
}
