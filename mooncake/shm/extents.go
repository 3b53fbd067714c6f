package shm

import "slices"

// An extent is a run of pages.
type extent struct{ first, count int }

func (e extent) end() int { return e.first + e.count }

// extents are the free pages of an arena: runs in ascending order, no two of
// which touch.
type extents []extent

// take removes count pages that follow each other, the lowest there are: low
// pages are the likeliest to have been used before. It returns the first, and
// whether there were so many.
func (e *extents) take(count int) (int, bool) {
	for i := range *e {
		run := &(*e)[i]
		if run.count < count {
			continue
		}
		first := run.first
		run.first += count
		run.count -= count
		if run.count == 0 {
			*e = slices.Delete(*e, i, i+1)
		}
		return first, true
	}
	return 0, false
}

// give adds pages that are not free.
func (e *extents) give(first, count int) {
	run := extent{first, count}
	i, _ := slices.BinarySearchFunc(*e, first, func(a extent, first int) int { return a.first - first })
	if i < len(*e) && run.end() == (*e)[i].first {
		run.count += (*e)[i].count
		*e = slices.Delete(*e, i, i+1)
	}
	if i > 0 && (*e)[i-1].end() == first {
		(*e)[i-1].count += run.count
		return
	}
	*e = slices.Insert(*e, i, run)
}

// runs returns the runs of pages within a range whose mark has a value.
func runs(marks []bool, within extent, value bool) []extent {
	var found []extent
	for i := within.first; i < within.end(); i++ {
		switch {
		case marks[i] != value:
		case len(found) > 0 && found[len(found)-1].end() == i:
			found[len(found)-1].count++
		default:
			found = append(found, extent{i, 1})
		}
	}
	return found
}

func fill(marks []bool, within extent, value bool) {
	for i := within.first; i < within.end(); i++ {
		marks[i] = value
	}
}
