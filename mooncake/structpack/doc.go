// Package structpack reads and writes the serialization of Mooncake's RPCs:
// struct_pack of the yalantinglibs library, version 1 of its layout.
//
// A message is
//
//	u32  type code: the first four bytes of the MD5 of the type's literal, as a
//	     big-endian number, with bit 0 set when a meta byte follows
//	u8   meta, if bit 0 says so; bit 2: the literal and a NUL follow; bits 3 and
//	     4: the width of each container length, 1 << bits bytes
//	...  the value
//
// and all numbers are little-endian. A message carries no names and no field
// numbers: both sides have to mean the same type, and the code is how they
// notice that they do not. A Type is built from the package's constants and
// combinators, and is what Encode stamps and Decode insists on:
//
//	var keys = structpack.Struct(structpack.Vector(structpack.String), structpack.String)
//
//	message := structpack.Encode(keys, func(w *structpack.Writer) {
//		structpack.WriteSlice(w, names, w.String)
//		w.String("default")
//	})
//
//	err := structpack.Decode(structpack.Vector(structpack.Bool), message, func(r *structpack.Reader) {
//		present = structpack.ReadSlice(r, r.Bool)
//	})
//
// Several arguments of a call travel as one Struct, a single one bare, none as an
// empty body.
//
// Messages are written with literals, as Mooncake's own clients write them, and
// read with or without. What is read is not trusted: a length that the rest of
// the message cannot hold, a bool that is neither 0 nor 1, an alternative that
// does not exist, a value that ends early or leaves bytes over are ErrFormat, and
// memory is only taken as elements are found to be there.
package structpack
