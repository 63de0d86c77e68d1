package ids_test

import (
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/session/ids"
	"holdfast/test/fuzz/bound"
)

// FuzzParse: every form reads a text as an id or refuses it with a FieldError, and reads it only if it is the text that
// the form writes for the id. Where math/big knows the form's digits, it reads the same number.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "0", "00", "0x0100000000010007", "0100000000010007", "00jpia9pm9ybr", "05K1WLnfyEB", "72057594037993479",
		"1541815603606036480",
		"3w5e11264sgsf", "3w5e11264sgsg", "LygHa16AHYF", "LygHa16AHYG", "18446744073709551615", "18446744073709551616",
		"zzzzzzzzzzzzz",
		"-1", "+1", " 1", "1_0", "0X1f", "05K1WLnfyé", "１", strings.Repeat("0", 64) + "1",
	} {
		f.Add(s)
	}
	bases := map[ids.Form]int{ids.Decimal: 10, ids.Hex: 16, ids.HexShort: 16, ids.Base36: 36, ids.Base36Short: 36}
	f.Fuzz(func(t *testing.T, s string) {
		for _, form := range ids.Forms() {
			var id uint64
			var err error
			bound.Cost{PerByte: 16, Fixed: 64 << 10}.Hold(t, len(s), func() { id, err = form.Parse(s) })
			if err != nil {
				if field, ok := errors.AsType[*session.FieldError](err); !ok || field.Field != "id" {
					t.Errorf("%v.Parse(%q): %v, want a FieldError of id", form, s, err)
				}
				continue
			}
			if text := form.Format(id); text != s {
				t.Errorf("%v reads %q as %#x, whose text is %q", form, s, id, text)
			}
			if base := bases[form]; base != 0 {
				if v, ok := new(big.Int).SetString(s, base); !ok || !v.IsUint64() || v.Uint64() != id {
					t.Errorf("%v reads %q as %#x, which is not its number %v", form, s, id, v)
				}
			}
		}
	})
}

// FuzzParseZXID: ParseZXID reads a text as a zxid or refuses it with a FieldError. The zxid is written in one form,
// which is read as the same zxid.
func FuzzParseZXID(f *testing.F) {
	for _, s := range []string{
		"", "0x", "0x300000010", "300000010", "0XFFFFFFFFFFFFFFFF", "0x10000000000000000", "-1",
		"+1", "1_0", "0x0x1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var z ids.ZXID
		var err error
		bound.Cost{PerByte: 16, Fixed: 64 << 10}.Hold(t, len(s), func() { z, err = ids.ParseZXID(s) })
		if err != nil {
			if field, ok := errors.AsType[*session.FieldError](err); !ok || field.Field != "zxid" {
				t.Errorf("ParseZXID(%q): %v, want a FieldError of zxid", s, err)
			}
			return
		}
		if again, err := ids.ParseZXID(z.String()); err != nil || again != z {
			t.Errorf("%q is read as %v, and then as %v, %v", s, z, again, err)
		}
		if made, err := ids.NewZXID(uint64(z.Term()), uint64(z.Counter())); err != nil || made != z {
			t.Errorf("the parts of %v make %v, %v", z, made, err)
		}
	})
}

// FuzzDecode: every layout decodes every id, except a snowflake whose highest bit is set. Encoding the values gives the
// id again unless one of them is out of range. The time can be written as JSON.
func FuzzDecode(f *testing.F) {
	for _, id := range []uint64{
		0, 1, 1541815603606036480, 175928847299117063, 0x017EDDBEB1B90000, 0x10000295bb80000,
		1 << 63, 1<<63 - 1, 1<<64 - 1,
	} {
		f.Add(id, uint8(0), int64(twitterEpoch))
	}
	f.Add(uint64(7), uint8(8), int64(0))
	f.Add(uint64(1)<<62, uint8(2), int64(32503679999999))
	f.Fuzz(func(t *testing.T, id uint64, rollbackBits uint8, epoch int64) {
		all := []ids.Layout{ids.HoldfastLayout(), ids.ZooKeeperLayout()}
		if l, err := ids.SnowflakeLayout(time.UnixMilli(epoch), int(rollbackBits)); err == nil {
			all = append(all, l)
		} else if !errors.Is(err, session.ErrInvalid) {
			t.Errorf("epoch %d, %d bits: %v", epoch, rollbackBits, err)
		}
		for _, l := range all {
			d, err := l.Decode(id)
			if err != nil {
				if l.Name() != "snowflake" || id>>63 == 0 {
					t.Errorf("%s refuses %#x: %v", l.Name(), id, err)
				}
				continue
			}
			values, inRange := map[string]uint64{}, true
			for _, v := range d.Values {
				values[v.Name] = v.Value
				inRange = inRange && v.Value >= v.Min && v.Value <= v.Max
			}
			again, err := l.Encode(values)
			if inRange != (err == nil) || err == nil && again != id {
				t.Errorf("%s: %#x is put together as %#x, %v", l.Name(), id, again, err)
			}
			if _, err := d.Time.MarshalJSON(); err != nil || d.Elapsed < 0 {
				t.Errorf("%s: %#x has the time %v, %v, %v", l.Name(), id, d.Time, err, d.Elapsed)
			}
		}
	})
}

// FuzzDeriveMachine: whatever the address and the process id are, DeriveMachine returns a number in range or a
// FieldError.
func FuzzDeriveMachine(f *testing.F) {
	f.Add([]byte{0x02, 0x42, 0xac, 0x11, 0, 2}, 1)
	f.Add([]byte{}, 0)
	f.Add([]byte{1}, -1)
	f.Fuzz(func(t *testing.T, mac []byte, pid int) {
		m, err := ids.DeriveMachine(mac, pid)
		if refuse := len(mac) < 2 || pid < 0; refuse != errors.Is(err, session.ErrInvalid) || refuse != (err != nil) ||
			m.Datacenter > ids.MaxMachine || m.Worker > ids.MaxMachine {
			t.Errorf("%x, %d: %v, %v", mac, pid, m, err)
		}
	})
}
