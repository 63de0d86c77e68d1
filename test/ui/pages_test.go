package ui

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/session"
	"holdfast/test/timeout"
)

// planted is a script as it might stand in anything that a client may write. It must never run.
const planted = `"><script>window.planted=1</script><img src=x onerror="window.planted=1">'{{.}}`

// inhabit fills a cluster with what pages show, scripts in all of it, and returns sessions: one that lives and holds
// all, and one that has ended.
func inhabit(t *testing.T, c *cluster) (alive *client.Session, dead session.ID) {
	t.Helper()
	cl, ctx := c.connectAs(t, client.Config{
		ClientName: planted, Digests: []string{"<script>window.planted=1</script>" + ":secret"},
	}), t.Context()
	open := func(wanted time.Duration) *client.Session {
		s, err := cl.Open(ctx, client.SessionOptions{
			Timeout: wanted, Labels: map[string]string{"name": "web-1", "note": planted},
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	alive = open(10 * time.Second)
	tr := alive.Tree()
	write := func(path, data string, o client.CreateOptions) {
		o.Parents = true
		if _, err := tr.Create(ctx, path, []byte(data), o); err != nil {
			t.Fatal(err)
		}
	}
	write("/services/web/"+strings.ReplaceAll(planted, "/", "|"), planted, client.CreateOptions{})
	write("/config", `{"limit": 3, "note": "`+strings.ReplaceAll(planted, `"`, `\"`)+`"}`, client.CreateOptions{})
	write("/binary", "\x00\x01\xff"+planted, client.CreateOptions{})
	for range 2 {
		m := recipes.NewLock(alive, "/locks/backup", recipes.WithHolder(planted))
		go m.Lock(ctx) // the second one waits until the end of the test
	}
	for at := time.Now(); ; {
		page, err := tr.ListPage(ctx, "/locks/backup", client.Listing{})
		if err == nil && len(page.Children) == 2 {
			break
		}
		if time.Since(at) > waitBound {
			timeout.Fatalf(t, "no two contenders: %v, %v", page, err)
		}
	}
	killed := open(10 * time.Second)
	if _, err := cl.Kill(ctx, []session.ID{killed.ID()}, planted); err != nil {
		t.Fatal(err)
	}
	return alive, killed.ID()
}

// Every page, in the light and in the dark, in a wide window and in a phone's: it has what it is about, no script of a
// stranger runs, nothing is asked of other hosts, the browser complains of nothing, and everybody can use it.
func TestPages(t *testing.T) {
	c := begin(t, nil)
	alive, dead := inhabit(t, c)
	b := open(t, c.configs[0].Listen.HTTP)
	for _, page := range []struct{ name, path, shows string }{
		{"overview", "", "No problems"},
		{"sessions", "sessions", alive.ID().String()},
		{"session", "sessions/" + alive.ID().String(), "Why it is alive"},
		{"death", "sessions/" + dead.String(), "an operator killed it"},
		{"tree", "tree?path=/", "services"},
		{"data", "tree?path=/config", `"limit": 3`},
		{"binary", "tree?path=/binary", "00 01 ff"},
		{"hostile", "tree?path=/services/web", "onerror"},
		{"locks", "locks", "waits"},
		{"members", "members", "2 of 3 voters remain"},
		{"deaths", "deaths", dead.String()},
		{"settings", "settings", "heartbeat_interval"},
		{"principal", "sessions?principal=planted", alive.ID().String()},
		{"search", "sessions?label=name%3Dweb-1&max_age=1h&min_left=1ms", alive.ID().String()},
	} {
		t.Run(page.name, func(t *testing.T) {
			for _, look := range []struct {
				name, scheme string
				width        int64
			}{{"light", "light", 1280}, {"dark", "dark", 1280}, {"phone", "light", 390}, {"phone-dark", "dark", 390}} {
				b.looks(look.width, 900, look.scheme)
				b.visit(c.url(0, page.path))
				b.shows(page.shows)
				b.until(`document.getElementById("live").textContent.startsWith("Live") || !document.getElementById("content").dataset.reloadOn`)
				if page.name == "overview" {
					b.until(`document.querySelectorAll("#plots canvas").length === 8`)
				}
				for _, wrong := range value[[]string](b, audit) {
					t.Errorf("%s: %s", look.name, wrong)
				}
				b.picture(page.name + "-" + look.name)
			}
			if value[bool](b, "'planted' in window") {
				t.Error("a planted script ran")
			}
		})
	}
	b.visit(c.url(0, "sessions/"+alive.ID().String()))
	for _, of := range []string{"127.0.0.1:", planted + " (unverified)", "digest:<script>window.planted=1</script>"} {
		b.shows(of)
	}
	for _, none := range []string{"sessions?principal=nobody", "sessions?principal=secret"} { // no password, and no hash
		b.visit(c.url(0, none))
		b.shows("No connected client with this principal has a session")
	}
	for _, page := range []struct{ path, shows string }{
		{"sessions?principal=x&label=y", "principal: can be combined with owner only"},
		{"sessions/0x1", "0x"},
		{"sessions?owner=999", "owner: must be the number of a node, 1 to 254"},
		{"sessions?min_age=old", "min_age: must be a duration"},
		{"tree?path=no", "path"},
		{"tree?path=/none", "/none"},
		{"deaths?cause=old", "cause: must be"},
		{"deaths?scope=old", "scope: must be global or local"},
		{"nothing", "Page not found"},
	} {
		b.expect("Failed to load resource")
		b.visit(c.url(0, page.path))
		b.shows(page.shows)
		if n := value[int](b, `document.querySelectorAll("[role=alert]").length`); n != 1 {
			t.Errorf("%s: %d alerts, want 1", page.path, n)
		}
	}
}

// Links lead where they say, whatever is in the names of entries.
func TestLinks(t *testing.T) {
	c := begin(t, nil)
	alive, dead := inhabit(t, c)
	b := open(t, c.configs[0].Listen.HTTP)
	click := func(link string) {
		t.Helper()
		clicked := fmt.Sprintf(`(() => {
			const one = [...document.querySelectorAll("main a")].find((a) => a.textContent === %q);
			if (one) { window.here = true; one.click(); }
			return !!one;
		})()`, link)
		if !value[bool](b, clicked) {
			t.Fatalf("no link %q; the page shows:\n%s", link, b.text())
		}
		b.until(`!window.here && document.readyState === "complete"`)
	}
	b.visit(c.url(0, "tree"))
	click("services")
	click("web")
	click(strings.ReplaceAll(planted, "/", "|"))
	b.shows("persistent")
	click("services")
	click("/")
	click("config")
	click("json")
	b.shows("  \"limit\": 3")
	b.visit(c.url(0, "sessions/"+alive.ID().String()))
	click("/locks/backup/lock-0000000000")
	click(alive.ID().String())
	b.shows("Why it is alive")
	b.visit(c.url(0, "deaths?cause=killed"))
	answer, err := http.Get(c.url(0, strings.TrimPrefix(value[string](b, `document.querySelector("a[download]").getAttribute("href")`), "/ui/")))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.Body.Close() != nil || strings.Count(string(body), "\n") != 2 ||
		!strings.Contains(string(body), dead.String()) {
		t.Errorf("the export of the killed has %q, %v", body, err)
	}
	if value[bool](b, "'planted' in window") {
		t.Error("a planted script ran")
	}
}

// The keyboard alone: the first stop is the way around the navigation, then all links follow, and a page that follows
// keeps the focus where it is.
func TestKeyboard(t *testing.T) {
	c := begin(t, nil)
	alive, _ := inhabit(t, c)
	b := open(t, c.configs[0].Listen.HTTP)
	b.visit(c.url(0, "sessions"))
	b.shows(alive.ID().String())
	b.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	b.until(`location.hash === "#content" && document.activeElement.id === "content"`)
	link := fmt.Sprintf(`document.querySelector('a[href="/ui/sessions/%v"]')`, alive.ID())
	value[bool](b, link+`.focus(), window.before = `+link+`, true`)
	// Another session changes the log: the page loads its content anew.
	if _, err := c.client.Open(t.Context(), client.SessionOptions{
		Timeout: 10 * time.Second, Labels: map[string]string{"name": "newcomer"},
	}); err != nil {
		t.Fatal(err)
	}
	b.shows("name=newcomer")
	if !value[bool](b, `document.activeElement === `+link+` && document.activeElement !== window.before`) {
		t.Error("the page has lost the focus, or did not load anew")
	}
	b.do(chromedp.KeyEvent(kb.Enter))
	b.shows("Why it is alive")
	// Other pages load anew every 5 s. Whatever has the focus has it afterwards, and the Tab key goes on from there.
	keeps := func(page, one string, meanwhile func()) {
		t.Helper()
		b.visit(c.url(0, page))
		b.until("!!" + one)
		value[bool](b, one+`.focus(), document.querySelector("main h1").marked = true`)
		meanwhile()
		b.until(`!document.querySelector("main h1").marked`)
		if !value[bool](b, `document.activeElement === `+one) {
			t.Errorf("%s: %s has lost the focus to %s", page, one, value[string](b, "document.activeElement.outerHTML"))
		}
	}
	nothing := func() {}
	keeps("", `document.querySelector("[role=region][aria-labelledby=nodes]")`, nothing)
	keeps("sessions", `document.querySelector("[role=region][aria-label=Sessions]")`, nothing)
	keeps("members", `document.querySelector('form[action="/ui/members/3/drain"] button')`, nothing)
	b.do(chromedp.KeyEvent(kb.Tab))
	if next := value[string](b, "document.activeElement.textContent"); !strings.Contains(next, "node 3") {
		t.Errorf("after the button that drains node 3 the Tab key leads to %q", next)
	}
	const host = `document.querySelector("[data-keep=add] [name=host]")`
	keeps("members", host, func() {
		b.do(chromedp.KeyEvent("ab"))
		value[bool](b, host+`.setSelectionRange(1, 1), true`)
	})
	b.do(chromedp.KeyEvent("x"))
	if text := value[string](b, host+".value"); text != "axb" {
		t.Errorf("a field that somebody fills in has %q, want %q", text, "axb")
	}
}
