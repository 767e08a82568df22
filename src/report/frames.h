/* Moved down: export needs it as well. */
#include "trace/frames.h"
