// Package ollama puts the stand-in for llama-server into an installed Ollama, and
// takes it out again.
//
// Ollama runs models in a llama-server that lies in its lib folder. Attached, that
// name is the stand-in's, a copy of this program, and the real one is
// llama-server.real beside it, where the stand-in finds it. Beside both, a link
// named ollamoon.yaml leads to the settings: a file of the machine, or of the user
// who is not root, whose name is made of the lib folder's path. An update of Ollama
// may remove its whole lib folder; that file stays, and tells what was attached.
//
// Files change places by renaming only, so that at every moment there is a
// llama-server that works, whoever is killed, and nothing is written into a file
// that runs. What the two names hold says how far it has come:
//
//	llama-server  llama-server.real
//	real          none               Detached, or Updated where there are settings
//	real          the same file      Interrupted: works unshared
//	real          another real one   Updated: Ollama has replaced the stand-in
//	stand-in      real               Attached
//	none          real               Missing
//	stand-in      none, or stand-in  Lost: Ollama has to be installed again
//
// Attach makes Attached of all of them but the last, and of Updated with the new
// real one; Detach makes Detached of all of them but the last, with the file that
// was there, its mode, owner and times.
//
// The app of macOS is left alone: it is signed, and would not start with a file
// changed.
package ollama
