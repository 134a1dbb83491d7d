"""What happens to jobs: every course by name, failing ones first."""

from lab.exams.sealed.common.course import Course
from lab.exams.sealed.third.courses import benign, devices, fabric, hosts, platform, programs, runtime, slowness

_PARTS = (devices, hosts, fabric, runtime, programs, platform, slowness, benign)
COURSES: dict[str, Course] = {course.name: course for part in _PARTS for course in part.FOUND.held}
