#include "craton/train/worker_main.h"

int main(int argc, char** argv) { return craton::train::worker_main(argc, argv); }
