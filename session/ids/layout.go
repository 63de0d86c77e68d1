package ids

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"holdfast/session"
)

// Field is a run of bits of an id with a meaning.
type Field struct {
	// Name is the field's name in errors and on the command line.
	Name string
	// Shift is the number of bits below the field, Bits the number of its own.
	Shift, Bits uint
	// Min and Max are the range that [Layout.Encode] accepts. [Layout.Decode] shows the value of the bits, in range or
	// not.
	Min, Max uint64
	// Meaning is for people.
	Meaning string
}

func (f Field) of(id uint64) uint64 { return id >> f.Shift & (1<<f.Bits - 1) }

func (f Field) check(v uint64) error {
	if v < f.Min || v > f.Max {
		return &session.FieldError{Field: f.Name, Limit: fmt.Sprintf("%d to %d", f.Min, f.Max)}
	}
	return nil
}

// fieldMS is the name of the field of milliseconds, which every layout has.
const fieldMS = "ms"

// Layout gives the bits of an id their meaning. It does not change, and is safe for concurrent use. The zero Layout has
// no fields.
type Layout struct {
	name string
	// fields are ordered from the high bits to the low ones, without gaps. Bits above the first are 0 in every id.
	fields []Field
	// epoch is the moment from which ms counts; zero when it is not known.
	epoch time.Time
	// usual is the usual text form of ids of this layout.
	usual Form
	// notes, when set, returns the notes on an id.
	notes func(id uint64) []string
}

// Name returns holdfast, zookeeper or snowflake.
func (l Layout) Name() string { return l.name }

// Fields returns the fields from the high bits to the low ones. The slice is the caller's.
func (l Layout) Fields() []Field { return slices.Clone(l.fields) }

// Epoch returns the moment from which ms counts. It is zero for ZooKeeper's layout, which counts from a machine's
// start.
func (l Layout) Epoch() time.Time { return l.epoch }

// Usual returns the usual text form of ids of this layout.
func (l Layout) Usual() Form { return l.usual }

// Value is a field of an id with its value.
type Value struct {
	Field

	Value uint64
}

// Decoded is a decoded id.
type Decoded struct {
	ID uint64
	// Values are in the order of the layout's fields.
	Values []Value
	// Time is the moment in the id. It is zero when the layout has no wall-clock time; then Elapsed is the reading of
	// the generator's clock.
	Time    time.Time
	Elapsed time.Duration
	// Notes are for people: other interpretations of the id, and reasons why it may be no id.
	Notes []string
}

// Value returns the value of the field with this name, 0 when the layout has none.
func (d Decoded) Value(name string) uint64 {
	for _, v := range d.Values {
		if v.Name == name {
			return v.Value
		}
	}
	return 0
}

// Decode decodes id. The error is a [session.FieldError] of id, when it has bits above the layout's highest field.
func (l Layout) Decode(id uint64) (Decoded, error) {
	if top := l.bits(); top < 64 && id>>top != 0 {
		return Decoded{}, &session.FieldError{
			Field: "id", Limit: fmt.Sprintf("at most %d bits in layout %s", top, l.name),
		}
	}
	d := Decoded{ID: id, Values: make([]Value, 0, len(l.fields))}
	for _, f := range l.fields {
		d.Values = append(d.Values, Value{f, f.of(id)})
	}
	// Cannot overflow: no field of milliseconds has more than 41 bits.
	elapsed := time.Duration(d.Value(fieldMS)) * time.Millisecond
	if l.epoch.IsZero() {
		d.Elapsed = elapsed
	} else {
		d.Time = l.epoch.Add(elapsed)
	}
	if l.notes != nil {
		d.Notes = l.notes(id)
	}
	return d, nil
}

// Encode makes an id of values by field name; fields without a value are 0. The error is a [session.FieldError] of the
// highest field whose value is out of range, or of a name that is no field of the layout.
func (l Layout) Encode(values map[string]uint64) (uint64, error) {
	var id uint64
	for _, f := range l.fields {
		v := values[f.Name]
		if err := f.check(v); err != nil {
			return 0, err
		}
		id |= v << f.Shift
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(l.names(), name) {
			limit := "a field of layout " + l.name + ": " + strings.Join(l.names(), ", ")
			return 0, &session.FieldError{Field: name, Limit: limit}
		}
	}
	return id, nil
}

// MS returns the milliseconds from the layout's epoch to t. The error is a [session.FieldError] of time, when an id of
// the layout cannot hold t or has no wall-clock time.
func (l Layout) MS(t time.Time) (uint64, error) {
	i := slices.IndexFunc(l.fields, func(f Field) bool { return f.Name == fieldMS })
	if l.epoch.IsZero() || i < 0 {
		limit := "must not be given: layout " + l.name + " has no wall-clock time, only " + fieldMS
		return 0, &session.FieldError{Field: "time", Limit: limit}
	}
	last := l.epoch.Add(time.Duration(l.fields[i].Max) * time.Millisecond)
	if t.Before(l.epoch) || t.After(last) {
		limit := l.epoch.Format(time.RFC3339Nano) + " to " + last.Format(time.RFC3339Nano)
		return 0, &session.FieldError{Field: "time", Limit: limit}
	}
	return uint64(t.Sub(l.epoch).Milliseconds()), nil
}

// bits returns the number of bits of ids.
func (l Layout) bits() uint {
	if len(l.fields) == 0 {
		return 0
	}
	return l.fields[0].Shift + l.fields[0].Bits
}

func (l Layout) names() []string {
	names := make([]string, 0, len(l.fields))
	for _, f := range l.fields {
		names = append(names, f.Name)
	}
	return names
}

// field returns a field that accepts every value of its bits.
func field(name string, shift, width uint, meaning string) Field {
	return Field{Name: name, Shift: shift, Bits: width, Max: 1<<width - 1, Meaning: meaning}
}
