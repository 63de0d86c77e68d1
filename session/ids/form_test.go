package ids_test

import (
	"cmp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast/session/ids"
)

func TestForms(t *testing.T) {
	const post, open, last = 1541815603606036480, 0x0100000000010007, 1<<64 - 1
	for _, tt := range []struct {
		form ids.Form
		id   uint64
		want string
	}{
		{ids.Hex0x, open, "0x0100000000010007"},
		{ids.Hex, open, "0100000000010007"},
		{ids.Base36, open, "00jpia9pm9ybr"},
		{ids.Base62, open, "05K1WLnfyEB"},
		{ids.Decimal, open, "72057594037993479"},
		{ids.HexShort, open, "100000000010007"},
		{ids.Base36Short, open, "jpia9pm9ybr"},
		{ids.Base62Short, open, "5K1WLnfyEB"},
		{ids.Base36, post, "0bppc0m3ju134"},
		{ids.Base62, post, "1ptWyK4WgZU"},
		{ids.Hex, post, "1565a11f6217a000"},
		{ids.Base36, last, "3w5e11264sgsf"},
		{ids.Base62, last, "LygHa16AHYF"},
		{ids.Decimal, last, "18446744073709551615"},
		{ids.Base62Short, 61, "z"},
		{ids.Base62Short, 62, "10"},
		{ids.Base62Short, 35, "Z"},
		{ids.Base62Short, 36, "a"},
		{ids.Base36Short, 35, "z"},
		{ids.Hex0x, 0, "0x0000000000000000"},
		{ids.Base62, 0, "00000000000"},
		{ids.Decimal, 0, "0"},
		{ids.HexShort, 0, "0"},
	} {
		if got := tt.form.Format(tt.id); got != tt.want {
			t.Errorf("%v of %#x = %q, want %q", tt.form, tt.id, got, tt.want)
		}
		if got, err := tt.form.Parse(tt.want); err != nil || got != tt.id {
			t.Errorf("%v: %q is %#x, %v, want %#x", tt.form, tt.want, got, err, tt.id)
		}
	}
}

func TestFormsRefuse(t *testing.T) {
	for form, bad := range map[ids.Form][]string{
		ids.Hex0x: {
			"", "0x", "0100000000010007", "0x100000000010007", "0X0100000000010007", "0x010000000001000F",
			"0x01000000000100077",
		},
		ids.Hex: {
			"", "100000000010007", "010000000001000F", "01000000000100070", "010000000001000g",
			"+100000000010007",
		},
		ids.Base36: {
			"", "0jpia9pm9ybr", "00JPIA9PM9YBR", "3w5e11264sgsg", "zzzzzzzzzzzzz", "00jpia9pm9yb-",
			"000jpia9pm9ybr",
		},
		ids.Base62: {
			"", "5K1WLnfyEB", "LygHa16AHYG", "zzzzzzzzzzz", "05K1WLnfyE_", "05K1WLnfyE\x00",
			"05K1WLnfyé",
		},
		ids.Decimal: {
			"", "00", "01", "-1", "+1", " 1", "1 ", "1_0", "0x1", "18446744073709551616",
			"99999999999999999999", "118446744073709551615",
		},
		ids.HexShort:    {"", "01", "0x1", "F", "10000000000000000"},
		ids.Base36Short: {"", "01", "Z", "3w5e11264sgsg"},
		ids.Base62Short: {"", "01", "LygHa16AHYG", "１"},
	} {
		for _, s := range bad {
			id, err := form.Parse(s)
			wantField(t, err, "id")
			if id != 0 || err != nil && !strings.Contains(err.Error(), form.Format(1<<64-1)) {
				t.Errorf("%v of %q: %#x, %v, want the largest text in the refusal", form, s, id, err)
			}
		}
	}
}

// Forms do what their documentation says: a text is read as the id that it was written for, has the form's width, and
// sorts if the form sorts. It is the only text of its id: with one byte replaced it is another id, or none.
func TestFormsHoldWhatTheySay(t *testing.T) {
	for _, f := range ids.Forms() {
		if again, err := ids.ParseForm(f.String()); err != nil || again != f {
			t.Errorf("%v is read as %v, %v", f, again, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom(ids.Forms()).Draw(t, "form")
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		textA, textB := f.Format(a), f.Format(b)
		if id, err := f.Parse(textA); err != nil || id != a {
			t.Fatalf("%q is read as %#x, %v, want %#x", textA, id, err, a)
		}
		if len(textA) > f.Width() || f.Sorts() && len(textA) != f.Width() {
			t.Errorf("%q is not %d wide", textA, f.Width())
		}
		if f.Sorts() && cmp.Compare(textA, textB) != cmp.Compare(a, b) {
			t.Errorf("%q and %q are not in the order of %#x and %#x", textA, textB, a, b)
		}
		i := rapid.IntRange(0, len(textA)-1).Draw(t, "place")
		other := textA[:i] + string(rune(rapid.ByteRange(0, 127).Draw(t, "byte"))) + textA[i+1:]
		if id, err := f.Parse(other); err == nil && (id == a) != (other == textA) {
			t.Errorf("%q and %q are both %#x", textA, other, a)
		}
		if got := string(f.Append([]byte("id "), a)); got != "id "+textA {
			t.Errorf("appended: %q", got)
		}
	})
}

// The forms that do not sort put two texts in the wrong order: 2 is less than the base, whose text is 10.
func TestShortFormsDoNotSort(t *testing.T) {
	for form, base := range map[ids.Form]uint64{
		ids.Decimal: 10, ids.HexShort: 16, ids.Base36Short: 36,
		ids.Base62Short: 62,
	} {
		if small, large := form.Format(2), form.Format(base); form.Sorts() || small < large {
			t.Errorf("%v: %q and %q; sorts: %t", form, small, large, form.Sorts())
		}
	}
}

func TestNoForm(t *testing.T) {
	_, err := ids.ParseForm("base64")
	wantField(t, err, "form")
	if f := ids.Form(0); f.Width() != 0 || f.Sorts() || f.String() == "" {
		t.Errorf("%v is %d wide", f, f.Width())
	}
	defer func() {
		if recover() == nil {
			t.Error("a form that does not exist wrote a text")
		}
	}()
	_ = ids.Form(99).Format(1)
}

func TestAppendAllocatesNothing(t *testing.T) {
	room := make([]byte, 0, 32)
	for _, f := range ids.Forms() {
		text := f.Format(1 << 60)
		if n := testing.AllocsPerRun(100, func() {
			room = f.Append(room[:0], 1<<60)
			if _, err := f.Parse(text); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations", f, n)
		}
	}
}
