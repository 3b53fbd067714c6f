// Package prefill lets a worker that answers have long prompts computed by
// workers that do nothing else.
//
// A prefill worker serves Path: GET says what it is and how much it has to do,
// POST takes a prompt's tokens and a namespace, has the missing pages computed in
// steps and published, and tells of each step in a line of JSON. A request whose
// client goes away stops at the next step. Tokens go one way and counts the
// other: the pages themselves travel by the store, where the one who asked finds
// and checks them.
//
// A Pool is the asking side. It takes the member that is expected to be done
// first, by what each says of its queue and its speed, and only if that is sooner
// than computing here. Whatever goes wrong (nobody is there, the one that was
// asked stalls, refuses or takes longer than here) is an error at once or by a
// deadline, and the caller computes what is missing. A member that failed is left
// alone for a time that doubles.
//
// Both sides have to name pages alike: another version, namespace or page size is
// ErrMismatch, at start where the other side is there by then, and else when it
// is first met.
package prefill
