// Package rpc calls the functions of a coro_rpc server, the RPC of the
// yalantinglibs library that Mooncake's master and its mooncake_client speak.
//
// A Conn is one connection, made when the first call needs it. Calls are
// pipelined on it: each is written at once and answers are matched to calls by
// sequence number, in whatever order they come. Arguments and results are
// messages of package structpack, made and read by the caller:
//
//	conn := rpc.New("127.0.0.1:50051", rpc.Options{})
//	defer conn.Close()
//	result, err := conn.Call(ctx, "mooncake::WrappedMasterService::BatchExistKey", arguments)
//
// A call ends at once when its context does; its answer, should it still come, is
// dropped. A call that the server leaves unanswered for Options.Timeout ends with
// ErrTimeout, and the connection with it, as nothing says that the server still
// reads. Calls waiting on a connection that breaks end with ErrBroken: whether the
// server ran them is unknown. The next call connects anew, once.
//
// All errors of a server that answers are a ServerError. The others wrap one of
// ErrConnect, ErrBroken, ErrTimeout, ErrProtocol, ErrClosed, or are the context's.
//
// The frames (yalantinglibs, coro_rpc_protocol.hpp), little-endian:
//
//	request   u8 21, u8 0, u8 serialization 0, u8 type 0, u32 sequence,
//	          u32 function, u32 length, u32 attachment length; body
//	response  u8 21, u8 0, u8 error, u8 type, u32 sequence, u32 length,
//	          u32 attachment length; body; attachment
//
// A function's number is the first four bytes of the MD5 of its full C++ name, as
// a big-endian number. Attachments are not used: one in an answer is skipped.
package rpc
