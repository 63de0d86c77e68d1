package ids

import (
	"fmt"
	"math/bits"

	"holdfast/session"
)

// Form is a text format for ids. Every id has exactly one text in a form, and a reader accepts no other, so texts can
// be compared and used as keys. A form that sorts has texts of one width, whose bytes are in the order of the ids.
type Form uint8

// The forms. Digits are in the order of ASCII: 0-9, then A-Z (base62 only), then a-z. Libraries that put a-z before A-Z
// write another base62, which does not sort.
const (
	// Hex0x is 0x and 16 hexadecimal digits, the form of session ids. It sorts.
	Hex0x Form = iota + 1
	// Hex is 16 hexadecimal digits. It sorts.
	Hex
	// Base36 is 13 digits 0-9a-z. It sorts.
	Base36
	// Base62 is 11 digits 0-9A-Za-z. It sorts.
	Base62
	// Decimal is 1 to 20 digits. It does not sort.
	Decimal
	// HexShort is Hex without leading zeros. It does not sort.
	HexShort
	// Base36Short is Base36 without leading zeros. It does not sort.
	Base36Short
	// Base62Short is Base62 without leading zeros. It does not sort.
	Base62Short
)

// Forms returns all forms.
func Forms() []Form {
	return []Form{Hex0x, Hex, Base36, Base62, Decimal, HexShort, Base36Short, Base62Short}
}

// ParseForm returns the form with this name, see [Form.String]. The error is a [session.FieldError] of form.
func ParseForm(name string) (Form, error) {
	for _, f := range Forms() {
		if f.String() == name {
			return f, nil
		}
	}
	return 0, &session.FieldError{Field: "form", Limit: fmt.Sprintf("one of %v", Forms())}
}

// String returns the form's name in lower case.
func (f Form) String() string {
	switch f {
	case Hex0x:
		return "0x"
	case Hex:
		return "hex"
	case Base36:
		return "base36"
	case Base62:
		return "base62"
	case Decimal:
		return "decimal"
	case HexShort:
		return "hex-short"
	case Base36Short:
		return "base36-short"
	case Base62Short:
		return "base62-short"
	}
	return fmt.Sprintf("form %d", uint8(f))
}

// Width returns the number of bytes of the longest text, which every text has when the form sorts. It is 0 when f is no
// form.
func (f Form) Width() int { return len(f.prefix()) + f.digits() }

// Sorts reports whether texts are in the order of their ids.
func (f Form) Sorts() bool {
	switch f {
	case Hex0x, Hex, Base36, Base62:
		return true
	case Decimal, HexShort, Base36Short, Base62Short:
	}
	return false
}

// Format returns the text of id. It panics when f is no form.
func (f Form) Format(id uint64) string { return string(f.Append(make([]byte, 0, 20), id)) }

// Append appends the text of id to b, and allocates only when the capacity of b is too small. It panics when f is no
// form.
func (f Form) Append(b []byte, id uint64) []byte {
	var digits [20]byte // enough for the widest form
	i, base := len(digits), f.base()
	width := 1
	if f.Sorts() {
		width = f.digits()
	}
	for id != 0 || len(digits)-i < width {
		i--
		var d uint64
		id, d = split(id, base)
		digits[i] = digit(d, base)
	}
	return append(append(b, f.prefix()...), digits[i:]...)
}

// Parse accepts exactly the texts of [Form.Format]: no capitals in base 16 and 36, no sign, no space, and exactly the
// leading zeros of the form. The error is a [session.FieldError] of id. It panics when f is no form.
func (f Form) Parse(s string) (uint64, error) {
	prefix, base := f.prefix(), f.base()
	if len(s) <= len(prefix) || s[:len(prefix)] != prefix || len(s) > f.Width() || f.Sorts() && len(s) != f.Width() {
		return 0, f.refusal()
	}
	s = s[len(prefix):]
	if !f.Sorts() && len(s) > 1 && s[0] == '0' {
		return 0, f.refusal()
	}
	var id uint64
	for i := range len(s) {
		d := digitValue(s[i], base)
		high, low := bits.Mul64(id, base)
		sum, carry := bits.Add64(low, d, 0)
		if d >= base || high != 0 || carry != 0 {
			return 0, f.refusal()
		}
		id = sum
	}
	return id, nil
}

func (f Form) refusal() error {
	digits := map[uint64]string{10: "0-9", 16: "0-9a-f", 36: "0-9a-z", 62: "0-9A-Za-z"}[f.base()]
	count := fmt.Sprintf("%d digits %s", f.digits(), digits)
	if !f.Sorts() {
		count = fmt.Sprintf("1 to %d digits %s without leading zeros", f.digits(), digits)
	}
	if f.prefix() != "" {
		count = f.prefix() + " and " + count
	}
	return &session.FieldError{Field: "id", Limit: count + ", at most " + f.Format(1<<64-1)}
}

func (f Form) prefix() string {
	if f == Hex0x {
		return "0x"
	}
	return ""
}

func (f Form) base() uint64 {
	switch f {
	case Decimal:
		return 10
	case Hex0x, Hex, HexShort:
		return 16
	case Base36, Base36Short:
		return 36
	case Base62, Base62Short:
		return 62
	}
	panic(f.String() + " does not exist")
}

// digits returns the number of digits of the largest id, 0 when f is no form.
func (f Form) digits() int {
	switch f {
	case Decimal:
		return 20
	case Hex0x, Hex, HexShort:
		return 16
	case Base36, Base36Short:
		return 13
	case Base62, Base62Short:
		return 11
	}
	return 0
}

// split returns id / base and id % base. Each base is a constant here, so the compiler turns the division into a
// multiplication, which is several times as fast.
func split(id, base uint64) (rest, digit uint64) {
	switch base {
	case 10:
		return id / 10, id % 10
	case 16:
		return id >> 4, id & 15
	case 36:
		return id / 36, id % 36
	default:
		return id / 62, id % 62
	}
}

// digit returns the digit of v, less than 62. Bases up to 36 have no capitals.
func digit(v, base uint64) byte {
	switch {
	case v < 10:
		return '0' + byte(v)
	case base <= 36:
		return 'a' + byte(v-10)
	case v < 36:
		return 'A' + byte(v-10)
	default:
		return 'a' + byte(v-36)
	}
}

// digitValue returns the value of the digit c, which is base or more when c is no digit of the base.
func digitValue(c byte, base uint64) uint64 {
	switch {
	case c >= '0' && c <= '9':
		return uint64(c - '0')
	case c >= 'a' && c <= 'z' && base <= 36:
		return uint64(c-'a') + 10
	case c >= 'a' && c <= 'z':
		return uint64(c-'a') + 36
	case c >= 'A' && c <= 'Z' && base > 36:
		return uint64(c-'A') + 10
	}
	return 64
}
