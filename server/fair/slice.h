// How long a run has a device before another tenant's may have it.
#ifndef KILN_SERVER_FAIR_SLICE_H_
#define KILN_SERVER_FAIR_SLICE_H_

#include <algorithm>

namespace kiln::server {

// Of whole slices: for who is entitled to such a part of the device now. One's time in a second is exact to about a
// slice, so who has little of a second has short ones: a slice is a hundredth of what one has in a second, if whole
// ones are a millisecond. But a pause costs some of its own, and none is shorter than a quarter.
inline double SliceOf(double part) { return std::clamp(10 * part, 0.25, 1.0); }

}  // namespace kiln::server

#endif  // KILN_SERVER_FAIR_SLICE_H_
