// Package doctor looks at everything that has to be right for prompts to be
// shared, and says of each thing what it found and, where it is not right, what to
// do.
//
// It changes nothing that lasts: into a Mooncake Store it puts one small object,
// reads it back and removes it, since that alone shows that the owner's ports can
// be reached. Each look is bounded in time, and one that fails keeps none of the
// others from being made.
package doctor
