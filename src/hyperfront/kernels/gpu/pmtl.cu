// PMTL's weights for two objectives, a thread for each ray: which constraints take part, and the shortest vector in the
// convex hull of their gradients and those of the objectives, which are all in one plane.
//
// Compiled for K unit vectors that divide the loss space.

struct Vector { double x, y; };
__device__ __forceinline__ Vector operator-(Vector a, Vector b) { return {a.x - b.x, a.y - b.y}; }
__device__ __forceinline__ Vector operator+(Vector a, Vector b) { return {a.x + b.x, a.y + b.y}; }
__device__ __forceinline__ Vector operator*(double s, Vector a) { return {s * a.x, s * a.y}; }
__device__ __forceinline__ double dot(Vector a, Vector b) { return a.x * b.x + a.y * b.y; }
__device__ __forceinline__ double cross(Vector a, Vector b) { return a.x * b.y - a.y * b.x; }
__device__ __forceinline__ Vector unit(Vector a) { return 1 / max(sqrt(dot(a, a)), 1e-12) * a; }

// A square root of the Gram matrix in units of its trace: the gradients' coordinates in their plane.
struct Plane {
    double first = 0, cross = 0, second = 0;

    __device__ Plane(double c11, double c12, double c22) {
        const double trace = c11 + c22 > 0 ? c11 + c22 : 1;
        first = sqrt(max(c11 / trace, 0.0));
        cross = first > 0 ? c12 / trace / first : 0;
        second = sqrt(max(c22 / trace - cross * cross, 0.0));
    }
    __device__ Vector at(Vector weights) const {
        return {weights.x * first + weights.y * cross, weights.y * second};
    }
};

// The weights of the shortest point of the hull of `points`, each with weights of its own.
__device__ Vector shortest(const Vector* weights, Vector* points, int count) {
    double size = 0;
    for (int i = 0; i < count; i++) size = max(size, max(fabs(points[i].x), fabs(points[i].y)));
    for (int i = 0; i < count && size > 0; i++) points[i] = 1 / size * points[i];  // no product is too small then
    Vector best = weights[0];
    double least = dot(points[0], points[0]);
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count; j++) {  // the foot of the perpendicular on an edge, or an end
            const Vector along = points[i] - points[j];
            const double length = dot(along, along);
            const double share = length > 0 ? min(max(-dot(along, points[j]) / length, 0.0), 1.0) : 0.5;
            const Vector foot = share * points[i] + (1 - share) * points[j];
            if (dot(foot, foot) < least)
                least = dot(foot, foot), best = share * weights[i] + (1 - share) * weights[j];
        }
    double largest = 0;
    Vector around = best, where = {0, 0};
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count; j++)
            for (int k = j + 1; k < count; k++) {  // a triangle around 0, which cuts it into areas of one sign
                const Vector a = points[i], b = points[j], c = points[k];
                const double p = cross(b, c), q = cross(c, a), r = cross(a, b), whole = p + q + r;
                if (fabs(whole) > largest && p * whole >= 0 && q * whole >= 0 && r * whole >= 0) {
                    largest = fabs(whole);
                    around = p / whole * weights[i] + q / whole * weights[j] + r / whole * weights[k];
                    where = p / whole * a + q / whole * b + r / whole * c;
                }
            }
    // of three points on a line only rounding makes a triangle, which misses 0
    return largest > 0 && dot(where, where) < least ? around : best;
}

extern "C" __global__ void pmtl(
    const double* losses, const double* rays, const double* gram, const double* others, double* weights,
    unsigned char* status, double tolerance, double same, int count, int floored, int invalid) {
    const int ray = blockIdx.x * blockDim.x + threadIdx.x;
    if (ray >= count) return;
    const Vector given = {rays[2 * ray], rays[2 * ray + 1]}, loss = {losses[2 * ray], losses[2 * ray + 1]};
    const double* c = gram + 4 * ray;
    const bool finite = 0 * loss.x + 0 * loss.y + 0 * c[0] + 0 * c[1] + 0 * c[2] + 0 * c[3] == 0;  // else NaN
    Vector found = given;
    if (finite) {
        const Vector own = unit(given), towards = unit(loss);
        Vector rows[2 + K], points[2 + K];
        double distance[K], worst = -1;
        for (int k = 0; k < K; k++) {
            const Vector apart = Vector{others[2 * k], others[2 * k + 1]} - own;
            distance[k] = sqrt(dot(apart, apart)) < same ? -2 : dot(unit(apart), towards);  // sines: a ray is not its own
            worst = max(worst, distance[k]);
        }
        const bool outside = worst > tolerance;
        int taken = 0;
        if (!outside) rows[taken++] = {1, 0}, rows[taken++] = {0, 1};
        for (int k = 0; k < K; k++)
            if (outside ? distance[k] > tolerance : distance[k] >= -tolerance)
                rows[taken++] = Vector{others[2 * k], others[2 * k + 1]} - own;
        const Plane plane(c[0], c[1], c[3]);
        for (int i = 0; i < taken; i++) points[i] = plane.at(rows[i]);
        const Vector sum = shortest(rows, points, taken);
        const double total = fabs(sum.x) + fabs(sum.y);
        if (total > 0 && 0 * total == 0) found = 1 / total * sum;
    }
    weights[2 * ray] = found.x, weights[2 * ray + 1] = found.y;
    status[ray] = !finite ? invalid : loss.x == 0 || loss.y == 0 ? floored : 0;
}
