package structpack

import (
	"crypto/md5" //nolint:gosec // the protocol names types by it; nothing is protected
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// A Type is the type of a value on the wire. Types are equal (==) when their
// values look the same on the wire. The zero Type is none.
type Type struct{ literal string }

// Scalars and strings. An enum is its underlying type.
var (
	I32    = Type{"\x01"}
	U32    = Type{"\x02"}
	I64    = Type{"\x03"}
	U64    = Type{"\x04"}
	U8     = Type{"\x06"}
	U16    = Type{"\x08"}
	Bool   = Type{"\x0b"}
	Void   = Type{"\xfa"}
	String = Type{"\x80\x0c"}
)

// UUID is std::pair<uint64_t, uint64_t>. A pair is a plain struct to
// struct_pack, so its packing and its alignment (8 and 8) are in its literal.
var UUID = Type{"\xfd\x04\x04\x89\x89\xff"}

// Vector is std::vector<element>.
func Vector(element Type) Type { return Type{"\x84" + element.literal} }

// Optional is std::optional<value>.
func Optional(value Type) Type { return Type{"\x85" + value.literal} }

// Expected is tl::expected<value, failure>.
func Expected(value, failure Type) Type { return Type{"\x87" + value.literal + failure.literal} }

// Variant is std::variant<alternatives...>.
func Variant(alternatives ...Type) Type { return Type{"\x86" + join(alternatives) + "\xff"} }

// Struct is a reflected struct, or a tuple, of these fields.
func Struct(fields ...Type) Type { return Type{"\xfd" + join(fields) + "\xff"} }

func join(types []Type) string {
	var b strings.Builder
	for _, t := range types {
		b.WriteString(t.literal)
	}
	return b.String()
}

// String returns the type's literal in hexadecimal.
func (t Type) String() string { return hex.EncodeToString([]byte(t.literal)) }

// code is the type's code without the bit for a meta byte.
func (t Type) code() uint32 {
	sum := md5.Sum([]byte(t.literal)) //nolint:gosec // as above
	return binary.BigEndian.Uint32(sum[:4]) &^ 1
}
