package ui

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"holdfast/session"
)

// Every action asks for confirmation, names its consequences, and runs once it is confirmed.
func TestActions(t *testing.T) {
	c := begin(t, nil)
	alive, _ := inhabit(t, c)
	b, ctx := open(t, c.configs[0].Listen.HTTP), t.Context()
	of := "/ui/sessions/" + alive.ID().String()

	b.visit(c.url(0, "sessions/"+alive.ID().String()))
	b.fill(of+"/extend", "for", "20m")
	b.press("Extend session…")
	b.shows("Extend session " + alive.ID().String() + " for 20m0s?")
	if e, err := c.client.Explain(ctx, alive.ID()); err != nil || e.Vigil.Kept != 0 {
		t.Errorf("before the answer: %v, %v", e.Vigil, err)
	}
	b.press("Confirm")
	b.shows("does not expire within 20m0s")
	if e, err := c.client.Explain(ctx, alive.ID()); err != nil || e.Vigil.Kept < 19*time.Minute {
		t.Errorf("after the answer: %v, %v", e.Vigil, err)
	}

	b.visit(c.url(0, "members"))
	b.fill("/ui/freeze", "for", "7m")
	b.fill("/ui/freeze", "why", planted)
	b.press("Freeze expiry…")
	b.shows("Freeze expiry for 7m0s?")
	b.press("Confirm")
	b.visit(c.url(0, "members"))
	b.shows("Expiry is frozen for")
	b.visit(c.url(0, ""))
	b.shows("Expiry is frozen for")
	b.visit(c.url(0, "members"))
	b.press("Thaw expiry…")
	b.press("Confirm")
	b.shows("Expiry is no longer frozen.")

	b.visit(c.url(0, "tree?path=/config&format=json"))
	b.fill("/ui/tree/set", "data", "{\n  \"limit\": 4\n}")
	b.press("Set data…")
	b.shows("Replace the data of /config with 16 bytes?")
	b.press("Confirm")
	b.shows("The data of /config was set.")
	if got, err := c.client.Tree().Get(ctx, "/config"); err != nil || string(got.Data) != "{\n  \"limit\": 4\n}" {
		t.Errorf("after the set: %q, %v", got.Data, err)
	}
	b.visit(c.url(0, "tree?path=/config"))
	b.fill("/ui/tree/create", "name", "made here")
	b.fill("/ui/tree/create", "data", "ff 00 7f")
	b.fill("/ui/tree/create", "format", "hex")
	b.press("Create child…")
	b.press("Confirm")
	if got, err := c.client.Tree().Get(ctx, "/config/made here"); err != nil || string(got.Data) != "\xff\x00\x7f" {
		t.Errorf("after the create: %q, %v", got.Data, err)
	}
	b.visit(c.url(0, "tree?path=/config/made+here"))
	b.press("Delete /config/made here…")
	b.press("Confirm")
	if _, exists, err := c.client.Tree().Exists(ctx, "/config/made here"); err != nil || exists {
		t.Errorf("after the delete: %v, %v", exists, err)
	}

	b.visit(c.url(0, "members"))
	b.expect("Failed to load resource")
	b.press("Drain node 2…")
	b.shows("Drain node 2?")
	b.press("Confirm")
	b.shows("Node 2 is draining")
	b.visit(c.url(0, "members"))
	b.shows("draining")
	b.press("Undrain node 2…")
	b.shows("Undrain node 2?")
	b.press("Confirm")
	b.shows("Node 2 is undrained.")

	b.visit(c.url(0, "sessions/"+alive.ID().String()))
	b.fill(of+"/kill", "why", "the test ends it")
	b.press("Kill session…")
	b.press("Cancel")
	if _, err := c.client.Get(ctx, alive.ID()); err != nil {
		t.Errorf("after the answer no: %v", err)
	}
	b.fill(of+"/kill", "why", "the test ends it")
	b.press("Kill session…")
	b.press("Confirm")
	b.shows(fmt.Sprintf("Session %v was killed.", alive.ID()))
	if f, err := c.client.Get(ctx, alive.ID()); err != nil && !errors.Is(err, session.ErrExpired) || f.Certificate == nil ||
		f.Certificate.Cause != session.CauseKilled || f.Certificate.Story.Why != "the test ends it" {
		t.Errorf("after the kill: %+v, %v", f.Certificate, err)
	}
	if value[bool](b, "'planted' in window") {
		t.Error("a planted script ran")
	}
}

// Data that begins with an empty line is shown with it, and written back with it.
func TestAnEditKeepsTheFirstLine(t *testing.T) {
	c := begin(t, nil)
	alive, _ := inhabit(t, c)
	b, ctx := open(t, c.configs[0].Listen.HTTP), t.Context()
	const data = "\nabc\n"
	if _, err := alive.Tree().Set(ctx, "/config", []byte(data)); err != nil {
		t.Fatal(err)
	}
	b.visit(c.url(0, "tree?path=/config"))
	b.until(fmt.Sprintf(`document.querySelector("pre").textContent === %q`, data))
	b.press("Set data…")
	b.shows("Replace the data of /config with 5 bytes?")
	b.press("Confirm")
	b.shows("The data of /config was set.")
	if got, err := c.client.Tree().Get(ctx, "/config"); err != nil || string(got.Data) != data {
		t.Errorf("after the set: %q, %v, want %q", got.Data, err, data)
	}
}

// A write that somebody else was faster than is refused, and the page says so.
func TestAnEditThatIsTooLate(t *testing.T) {
	c := begin(t, nil)
	alive, _ := inhabit(t, c)
	b, ctx := open(t, c.configs[0].Listen.HTTP), t.Context()
	b.visit(c.url(0, "tree?path=/config"))
	b.fill("/ui/tree/set", "data", "mine")
	if _, err := alive.Tree().Set(ctx, "/config", []byte("theirs")); err != nil {
		t.Fatal(err)
	}
	b.shows("theirs") // the page follows, and what was being edited stays
	if got := value[string](b, `document.querySelector('form[action="/ui/tree/set"] [name=data]').value`); got != "mine" {
		t.Errorf("the field has %q, want what was entered", got)
	}
	b.press("Set data…")
	b.expect("Failed to load resource")
	b.press("Confirm")
	b.shows("version")
	if got, err := c.client.Tree().Get(ctx, "/config"); err != nil || string(got.Data) != "theirs" {
		t.Errorf("the entry has %q, %v", got.Data, err)
	}
}
